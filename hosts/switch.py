"""The network of a run: a bridge, and a namespace for each host, which can be isolated in every direction.

Hosts have addresses of 192.0.2.0/24, which is for examples and routed nowhere. The run itself, with its clients, is
`OUTSIDE` on the bridge. A host's own traffic to itself never meets a rule.
"""

from collections.abc import Sequence

from hosts.accounts import Account
from hosts.commands import run
from hosts.isolation import NAMESPACES

_BRIDGE = "switch"
OUTSIDE = "192.0.2.254"
NETWORK = "192.0.2.0/24"
_IN, _OUT = "HOSTS-IN", "HOSTS-OUT"


def address_of(number: int) -> str:
    """The address of host `number`, 1 to 253."""
    return f"192.0.2.{number}"


class Switch:
    """The bridge. Made once in a run's network namespace."""

    def __init__(self) -> None:
        run("ip", "link", "add", _BRIDGE, "type", "bridge")
        run("ip", "address", "add", f"{OUTSIDE}/24", "dev", _BRIDGE)
        run("ip", "link", "set", _BRIDGE, "up")

    def connect(self, name: str, number: int) -> "Wire":
        """A new namespace with one interface on the bridge."""
        run("ip", "netns", "add", name)
        run("ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", f"to-{name}", "master", _BRIDGE, "up")
        wire = Wire(name, address_of(number))
        wire.run("ip", "address", "add", f"{wire.address}/24", "dev", "eth0")
        wire.run("ip", "link", "set", "lo", "up")
        wire.run("ip", "link", "set", "eth0", "up")
        return wire


class Wire:
    """One host's namespace and what passes its interface."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self._chains = False

    def command(self, *command: str, account: Account | None = None) -> list[str]:
        """The command as it runs in this namespace; its process id is that of what is started.

        Not by `ip netns exec`: that copies all mounts, and a copy of a disk would outlive its power cut.
        """
        run_as = () if account is None else (f"--setgid={account.group}", f"--setuid={account.user}")
        return ["nsenter", f"--net={NAMESPACES / self.name}", *run_as, "--", *command]

    def run(self, *command: str) -> str:
        return run(*self.command(*command))

    # -- faults ----------------------------------------------------------------------------------------------

    def cut(self, *, inwards: bool = True, outwards: bool = True, peers: Sequence[str] = ()) -> None:
        """Drop what comes in, what goes out, or both: of these addresses, or of all when none is named."""
        for peer in peers or ("0.0.0.0/0",):
            if inwards:
                self._rule(_IN, "-s", peer)
            if outwards:
                self._rule(_OUT, "-d", peer)

    def lose(self, share: float) -> None:
        """Drop each packet that comes in with this probability."""
        self._rule(_IN, "-m", "statistic", "--mode", "random", "--probability", f"{share:.3f}")

    def heal(self) -> None:
        """Everything passes again."""
        if self._chains:
            for chain in (_IN, _OUT):
                self.run("iptables", "-w", "-F", chain)

    def _rule(self, chain: str, *match: str) -> None:
        if not self._chains:
            for new, hook, way in ((_IN, "INPUT", "-i"), (_OUT, "OUTPUT", "-o")):
                self.run("iptables", "-w", "-N", new)
                self.run("iptables", "-w", "-A", hook, way, "eth0", "-j", new)
            self._chains = True
        self.run("iptables", "-w", "-A", chain, *match, "-j", "DROP")
