"""Twilio's signature on the upgrade request: HMAC-SHA1 over the stream's URL.

It signs nothing but the URL and can be replayed, so a token in `<Parameter>` belongs
beside it (`TwilioSettings.stream_token`).
"""

import base64
import hmac
from hashlib import sha1
from urllib.parse import urlsplit, urlunsplit

_SECURE_PORT = 443


def valid_signature(auth_token: str, url: str, signature: str) -> bool:
    """Returns whether `signature` is Twilio's for this URL.

    Args:
        auth_token: of the Twilio account.
        url: the stream's URL as the TwiML has it. Behind a TLS proxy the server sees
            another scheme; it is taken as `wss`, which is what Twilio signs.
        signature: value of the header `X-Twilio-Signature`.
    """
    given = signature.strip().encode("utf-8", "replace")
    matches = [hmac.compare_digest(_sign(auth_token, form), given) for form in url_forms(url)]
    return any(matches)  # all are compared: the time taken tells nothing


def url_forms(url: str) -> list[str]:
    """Returns the ways in which Twilio may have written the URL that it signed.

    With and without the port 443, and, where the path is empty, with and without a slash.
    """
    parts = urlsplit(url)
    scheme = {"https": "wss", "http": "wss", "ws": "wss"}.get(parts.scheme, parts.scheme)
    bare = parts.netloc.removesuffix(f":{_SECURE_PORT}")
    has_port = bare.rpartition("]")[2].count(":") > 0
    hosts = [bare] if has_port else [bare, f"{bare}:{_SECURE_PORT}"]
    paths = ["", "/"] if parts.path in ("", "/") else [parts.path]
    return [urlunsplit((scheme, host, path, parts.query, "")) for host in hosts for path in paths]


def _sign(auth_token: str, url: str) -> bytes:
    # SHA-1 is Twilio's choice; HMAC does not rest on its collision resistance.
    digest = hmac.new(auth_token.encode(), url.encode("utf-8", "surrogatepass"), sha1).digest()
    return base64.b64encode(digest)
