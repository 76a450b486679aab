"""Which addresses are the public internet's: those that a tool may reach without the user's word. Resolves nothing."""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# The standard library's own list differs from one release to the next, so ours is complete.
_NOT_PUBLIC = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        "168.63.129.16/32",  # a metadata service at an address that looks like any other
    )
)
_PUBLIC_6 = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(
    ipaddress.IPv6Network(network)
    for network in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")  # special, documentation, IPv4 inside
)
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")


def is_public(text: str) -> bool:
    """True for an address of the public internet, False for any other and for what is no address."""
    try:
        address: Address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        elif address in _TRANSLATED:  # what a network without IPv4 answers for a host that has nothing else
            address = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        else:
            return address in _PUBLIC_6 and not any(address in network for network in _NOT_PUBLIC_6)
    return not any(address in network for network in _NOT_PUBLIC)
