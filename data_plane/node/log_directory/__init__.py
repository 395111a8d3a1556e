"""The log directory of one broker: opened at boot, its room watched, what is set aside in it kept and removed."""
