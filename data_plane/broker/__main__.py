"""Entry of the broker process."""

import sys

from data_plane.broker.process import main

if __name__ == "__main__":
    main(sys.argv[1:])
