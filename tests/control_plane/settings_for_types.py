"""Django's settings for the type checker, which reads the models through them and starts nothing."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from tests.control_plane.configuration import write

_folder = Path(tempfile.mkdtemp(prefix="penstock-types-"))
atexit.register(shutil.rmtree, _folder, ignore_errors=True)
os.environ["PENSTOCK_CONFIG"] = str(write(_folder, f"sqlite:///{_folder}/control.sqlite"))

from control_plane.settings import *  # noqa: E402, F403
