"""What a host:port is, and which hosts are this machine. Nothing is resolved."""

import ipaddress


def split_address(address: str) -> tuple[str, int]:
    """(host, port) of host:port; an IPv6 host loses its brackets. Port 0 = any. Raises `ValueError`."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or len(port) > 5 or int(port) > 65_535:
        raise ValueError(f"host:port required, {address!r} given")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Whether the host cannot be left from. A name other than `localhost` can, whatever it resolves to now."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def counted_address(host: str) -> str:
    """What limits count as one address: an IPv4 address, the /64 network of an IPv6 address, any other text itself."""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.strip("[]").partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return address.exploded[:19]
