"""A whole service over three zones: where each of its processes is, and how all are started and ended.

zone-a     zone-b     zone-c     outside
b1         b2         b3                    two brokers each
e1         e2         e3                    etcd
w1         w2                               a web process with the end of TLS, and a worker
r1         r2                               the runner, and the one that waits for its end
d1         d2                               PostgreSQL, and its standby
                      c1                    Redis
                                 lb         the balancer
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from data_plane.contract.admin_client import AdminClient
from hosts.balancer import Balancer, TlsEnd
from hosts.cluster import Cluster, Shape
from hosts.control_plane import WEB_ADDRESS, Process, Settings, run_command
from hosts.ground import BALANCER, CACHE, DATABASE, OUTSIDE_ZONE, RUNNER, WEB, ZONES
from hosts.postgresql import DATABASE as DATABASE_NAME
from hosts.postgresql import OWNER, Passwords, PostgreSql
from hosts.postgresql import PORT as POSTGRESQL_PORT
from hosts.program import Program
from hosts.readiness import Ready, start_all, wait_until
from hosts.redis import Redis
from hosts.switch import Switch

_START_S = 240.0
"""Against hanging alone: Spark takes half a minute where much starts at once."""


class Service:
    """Made, started and ended by the run. The demo's load runs on it."""

    def __init__(self, folder: Path, switch: Switch) -> None:
        """Raises `CommandFailed`."""
        self.cluster = Cluster(folder, Shape(brokers_per_host=2), switch)
        self.ground, certificates = self.cluster.ground, self.cluster.certificates
        first, second, third = ZONES
        two = ((1, first), (2, second))
        self._webs = [self.ground.host(f"w{n}", zone, WEB, n) for n, zone in two]
        runners = [self.ground.host(f"r{n}", zone, RUNNER, n) for n, zone in two]
        databases = [self.ground.host(f"d{n}", zone, DATABASE, n) for n, zone in two]
        cache = self.ground.host("c1", third, CACHE, 1)
        edge = self.ground.host("lb", OUTSIDE_ZONE, BALANCER, 1)
        self._passwords = Passwords()
        self._identity = certificates.issue("control-plane")
        self._of_runner = certificates.issue("runner")
        of_databases = certificates.issue("postgresql", [host.address for host in databases])
        self.primary, self.standby = (PostgreSql(host, of_databases) for host in databases)
        self.redis = Redis(cache, certificates.issue("redis", [cache.address]))
        for_web = certificates.issue_for_web([host.address for host in (edge, *self._webs)])
        self._tls_ends = [TlsEnd(host, for_web, WEB_ADDRESS) for host in self._webs]
        self.balancer = Balancer(edge, certificates.clients_ca_file, self._webs)
        both = ",".join(f"{host.address}:{POSTGRESQL_PORT}" for host in databases)
        (folder / "shared" / "datasets").mkdir(parents=True)
        self.settings = Settings(
            database_url=f"postgresql://{OWNER}:{self._passwords.owner}@{both}/{DATABASE_NAME}",
            celery_broker_url=self.redis.url,
            public_url=self.balancer.url,
            brokers=self.cluster.for_control_plane(),
            ca_file=certificates.clients_ca_file,
            shared=folder / "shared",
        )
        self._webs_at_work = [Process("web", host, self.settings, self._identity) for host in self._webs]
        self._workers = [Process("worker", host, self.settings, self._identity) for host in self._webs]
        self._runners = [Process("runner", host, self.settings, self._of_runner) for host in runners]
        self.ready: list[Ready] = []

    # -- the start and the end -----------------------------------------------------------------------------------

    def start(self, tell: Callable[[float, str], None]) -> None:
        """Start everything, each once what it needs serves. Raises `NotReady`, `CommandFailed`, `TimeoutError`."""
        tell(0.0, "PostgreSQL and its standby, Redis")
        self._start_stores()
        tell(0.2, "etcd and brokers")
        assert self.cluster.etcd is not None
        self._start([(node, node.serves) for node in self.cluster.etcd.nodes])
        self._start([(broker, broker.is_ready) for broker in self.cluster.brokers.values()])
        self.cluster.wait_until_active()
        tell(0.5, "tables, the system's tenant and topics")
        for command in ("migrate", "bootstrap"):
            run_command(self._webs[0], self.settings, self._identity, command)
        tell(0.6, "web, workers, runners, the balancer")
        front: list[TlsEnd | Balancer] = [*self._tls_ends, self.balancer]
        ours = [*self._webs_at_work, *self._workers, *self._runners]
        self._start([*((one, one.serves) for one in ours), *((one, one.serves) for one in front)])
        tell(0.9, "the runner that works")
        wait_until("a runner works", lambda: any(runner.works for runner in self._runners), _START_S)

    def _start_stores(self) -> None:
        primary, standby, passwords, identity = self.primary, self.standby, self._passwords, self._identity
        primary.make_primary(passwords)
        self._start([(primary, lambda: primary.serves(passwords, identity))])
        primary.make_database(passwords, identity)
        standby.follow(primary, passwords, identity)
        self._start(
            [
                (standby, lambda: standby.serves(passwords, identity)),
                (self.redis, lambda: self.redis.serves(identity)),
            ]
        )

    def _start(self, starting: Sequence[tuple[Program, Callable[[], bool]]]) -> None:
        self.ready += start_all(starting, _START_S)

    def end(self) -> list[str]:
        """Everything, each after what needs it; what had to be killed, by name."""
        late: list[str] = []
        first: list[Program] = [self.balancer, *self._tls_ends, *self._webs_at_work, *self._workers]
        _end([*first, *self._runners], late)
        late += [f"broker-{number}" for number in self.cluster.end()]
        _end([self.redis, self.standby], late)
        _end([self.primary], late)
        return late

    def running(self) -> list[str]:
        """What still runs, by name and host."""
        return [
            f"{program.name} on {host.name}"
            for host in self.ground.hosts.values()
            for program in host.programs
            if program.runs
        ]

    # -- as the demo's load sees it --------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> tuple[str, ...]:
        return tuple(self.cluster.bootstrap)

    @property
    def api_url(self) -> str:
        return self.balancer.url

    @property
    def datasets(self) -> Path:
        return self.settings.datasets

    @property
    def operator_token(self) -> str:
        return self.settings.operator_token_file.read_text().strip()

    def admin(self) -> AdminClient:
        return self.cluster.new_admin()

    def kill_broker(self, number: int) -> int | None:
        broker = self.cluster.brokers[number]
        pid, broker.kept_down = broker.pid, True
        broker.kill()
        return pid

    def start_broker(self, number: int) -> None:
        broker = self.cluster.brokers[number]
        start_all([(broker, broker.is_ready)], _START_S)
        broker.kept_down = False


def _end(programs: Sequence[Program], late: list[str]) -> None:
    """All at once."""
    with ThreadPoolExecutor(len(programs)) as pool:
        for program, in_time in zip(programs, pool.map(Program.end, programs), strict=True):
            if not in_time:
                late.append(f"{program.name} on {program.host.name}")
