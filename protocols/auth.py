"""Who is calling, and from which page: keys to principals, and the Origin allow-list.

Without any key the server is open; the composition root allows that on loopback only.
Browsers cannot set headers on a WebSocket, so they bring the key in a sub-protocol. Any
page that a browser shows may connect to loopback, which is why the Origin is checked even
where no key is asked for.
"""

import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import urlsplit

from streams.config import Tier
from streams.errors import Unauthorized

REALTIME_SUBPROTOCOL = "realtime"
"""The only sub-protocol that is ever answered; the others carry data, not a language."""

KEY_SUBPROTOCOLS = ("openai-insecure-api-key.", "realtime-token.")
"""Prefixes under which browsers send a key: OpenAI's SDKs, NVIDIA's client."""

LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Principal:
    """Is who makes a request and what their key pays for."""

    name: str
    tier: Tier = Tier.FREE


@dataclass(frozen=True, slots=True)
class Credentials:
    """Is what an upgrade or a request brought along.

    Attributes:
        key: the secret, None where there was none.
        subprotocol: the sub-protocol to answer with, None for none.
    """

    key: str | None = None
    subprotocol: str | None = None


class KeyRing:
    """Knows the configured keys, as digests only.

    Args:
        keys: secret -> whose it is. Empty means open: everybody is `guest`.
        guest: who a caller is while the ring is open.
    """

    def __init__(
        self, keys: Mapping[str, Principal], guest: Principal = Principal("local")
    ) -> None:
        self._owners = tuple((_digest(key), principal) for key, principal in keys.items())
        self._guest = guest

    @classmethod
    def of_digests(cls, digests: Mapping[str, Principal]) -> "KeyRing":
        """Makes a ring from SHA-256 digests in hexadecimal, so that no key need be stored."""
        ring = cls({})
        ring._owners = tuple((bytes.fromhex(hexed), owner) for hexed, owner in digests.items())
        return ring

    @property
    def is_open(self) -> bool:
        """Returns whether no key is asked for."""
        return not self._owners

    def identify(self, key: str | None) -> Principal:
        """Returns the owner of a key.

        Every digest is compared, found or not, so that the time taken tells nothing.

        Raises:
            Unauthorized: there is no key, or nobody has this one.
        """
        if self.is_open:
            return self._guest
        if not key:
            raise Unauthorized("An API key is needed: send 'Authorization: Bearer KEY'.")
        digest, found = _digest(key), None
        for known, principal in self._owners:
            if hmac.compare_digest(digest, known):
                found = principal
        if found is None:
            raise Unauthorized("The API key is not valid.")
        return found


@dataclass(frozen=True, slots=True)
class Access:
    """Is the rule at every door: whose key, and from which page.

    Attributes:
        keys: the configured keys.
        origins: as made by `allowed_origins`.
    """

    keys: KeyRing
    origins: frozenset[str]


def credentials(authorization: str | None, subprotocols: Sequence[str] = ()) -> Credentials:
    """Reads the key from the `Authorization` header, else from the offered sub-protocols."""
    offered = [name.strip() for name in subprotocols]
    answer = REALTIME_SUBPROTOCOL if REALTIME_SUBPROTOCOL in offered else None
    scheme, _, token = (authorization or "").strip().partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return Credentials(token.strip(), answer)
    for name in offered:
        for prefix in KEY_SUBPROTOCOLS:
            if name.startswith(prefix) and len(name) > len(prefix):
                return Credentials(name.removeprefix(prefix), answer)
    return Credentials(None, answer)


def allowed_origins(host: str, port: int, configured: Iterable[str] = ()) -> frozenset[str]:
    """Returns the origins whose pages may call: the server's own and the configured ones.

    Args:
        host: the address that the server binds. The `Host` header is no guide: after DNS
            rebinding it names the attacker's host, as the Origin does.
        port: the port that it binds.
        configured: further origins, such as `https://voice.example.com`; "*" allows all.
    """
    names = set(LOCAL_HOSTS)
    if host not in ("", "0.0.0.0", "::"):  # these are no address that a page can have
        names.add(f"[{host}]" if ":" in host else host)
    own = {f"http://{name}" if port == 80 else f"http://{name}:{port}" for name in names}
    return frozenset(_canonical(origin) for origin in own | set(configured))


def origin_allowed(origin: str | None, allowed: frozenset[str]) -> bool:
    """Returns whether a request with this `Origin` header may come in.

    None is no browser (they send the header with every WebSocket) and is allowed. The
    origin "null" of sandboxed frames and local files is not, unless it is configured.
    """
    if origin is None or "*" in allowed:
        return True
    return _canonical(origin) in allowed


def _canonical(origin: str) -> str:
    """Returns an origin as browsers write it: lower case, no default port, no slash."""
    origin = origin.strip().lower().rstrip("/")
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:  # not a URL: compared as it is, and then unlikely to be allowed
        return origin
    if port is not None and (parts.scheme, port) in (("http", 80), ("https", 443)):
        return origin.removesuffix(f":{port}")
    return origin


def _digest(key: str) -> bytes:
    return sha256(key.encode("utf-8", "surrogatepass")).digest()
