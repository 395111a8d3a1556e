"""Serves the web application with gunicorn on the configured address, until SIGTERM; requests at work are finished."""

import os
from typing import Any

from gunicorn.app.base import BaseApplication

from control_plane import config, logs

THREADS = 32
"""A request that changes something waits up to 2 s for its delivery, so there are more than processors."""
DRAIN_S = 10


class Server(BaseApplication):  # type: ignore[misc]
    """Gunicorn without a configuration file: one process of many threads, one connection to the database each."""

    def load_config(self) -> None:
        for name, value in {
            "bind": config.current().listen,
            "workers": 1,
            "threads": THREADS,
            "worker_class": "control_plane.slow_clients.Worker",
            "graceful_timeout": DRAIN_S,
            "timeout": 60,
            "keepalive": 15,
            # Its own default would believe every program on this machine.
            "forwarded_allow_ips": ",".join(str(network) for network in config.current().trusted_proxies),
            "forwarder_headers": "",
            "proc_name": "penstock-web",
            "control_socket_disable": True,
            "logconfig_dict": {
                "version": 1,
                "disable_existing_loggers": False,
                "root": {"level": "INFO", "handlers": []},
                "loggers": {
                    "gunicorn.error": {"level": "INFO", "propagate": True, "handlers": []},
                    "gunicorn.access": {"level": "WARNING", "propagate": True, "handlers": []},
                },
            },
        }.items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def load(self) -> Any:
        from control_plane.wsgi import application

        return application


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "control_plane.settings")
    logs.set_up()
    Server().run()


if __name__ == "__main__":
    main()
