"""The log directory of one broker: opened at boot, its free space watched, what is set aside in it kept and removed."""
