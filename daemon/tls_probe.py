"""Why a server of another maker cannot be called, in one line that says what to do: it is called as its client would.

A client's library says too little of it: libpq reports a wrong CA and an expired certificate in the same words.
"""

import socket
import ssl
import struct
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path

from daemon import certificates
from penstock.contract.errors import ConfigurationError

_SSL_REQUEST = struct.pack("!ii", 8, 80_877_103)
_PROTOCOL_3 = 196_608
_READ_BYTES = 1_024
_WRONG_TIME = {9: "not_yet_valid", 10: "expired"}
_WRONG_NAME = (62, 64)
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and _IP_ADDRESS_MISMATCH; above its codes for times."""
_NO_CERTIFICATE = ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE")
_GIVE_CERTIFICATE = "requires a client certificate; give certificate_file and key_file"
_TLS_ALERT = 0x15


class Protocol(Enum):
    """How a server begins."""

    POSTGRESQL = "postgresql"
    REDIS = "redis"
    ETCD = "etcd"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files of a caller."""

    ca_file: Path
    certificate_file: Path | None = None
    key_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """`reason` is one of few words to count by; `message` is one line."""

    reason: str
    message: str


class _Failed(Exception):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def failure(
    host: str,
    port: int,
    protocol: Protocol,
    files: TlsFiles | None,
    *,
    user: str = "penstock",
    timeout_s: float,
    now: datetime,
) -> Failure | None:
    """Why the server cannot be called with these files, or in plain text without them; None when it answers.

    An answer that is a refusal, as of a wrong password, is an answer.
    """
    try:
        _try(host, port, protocol, None if files is None else _context(files, now), user, timeout_s)
    except ConfigurationError as error:
        return Failure(reason="own_files", message=error.message)
    except _Failed as failed:
        found = failed
        if files is not None and failed.reason in ("closed", "no_answer"):
            if _speaks_plain(host, port, protocol, timeout_s):
                found = _Failed("plain_text", "speaks no TLS at this port; turn it on there")
        elif failed.reason == "refused_by_server" and files is not None and files.certificate_file is None:
            found = _Failed("no_certificate", _GIVE_CERTIFICATE)
        return Failure(reason=found.reason, message=f"{host}:{port}: {found.message}")
    return None


def _try(
    host: str, port: int, protocol: Protocol, context: ssl.SSLContext | None, user: str, timeout_s: float
) -> None:
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as plain:
            if context is None:
                _call_plain(plain, protocol, user)
            else:
                _call(plain, context, host, protocol, user)
    except TimeoutError:
        raise _Failed("no_answer", f"no answer within {timeout_s:g} s") from None
    except OSError as error:
        said = error.strerror or str(error)
        raise _Failed("unreachable", f"{said}; check the address, and that it runs") from None


def _context(files: TlsFiles, now: datetime) -> ssl.SSLContext:
    """Raises `ConfigurationError` for files that cannot be used."""
    certificates.load(files.ca_file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(files.ca_file)
    if files.certificate_file is None or files.key_file is None:
        return context
    own = certificates.load(files.certificate_file)[0]
    if not certificates.is_key_of(certificates.load_key(files.key_file), own):
        raise ConfigurationError(f"{files.key_file}: is the key of another certificate; replace both")
    if certificates.described(own).left(now).total_seconds() <= 0:
        ended = f"{own.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        raise ConfigurationError(f"{files.certificate_file}: has ended at {ended}; renew it")
    try:
        context.load_cert_chain(files.certificate_file, files.key_file)
    except ssl.SSLError as error:
        raise ConfigurationError(f"{files.certificate_file}: cannot be used: {error.reason}") from None
    return context


def _call(plain: socket.socket, context: ssl.SSLContext, host: str, protocol: Protocol, user: str) -> None:
    if protocol is Protocol.POSTGRESQL:
        plain.sendall(_SSL_REQUEST)
        if plain.recv(1) != b"S":
            raise _Failed("plain_text", "speaks no TLS; turn it on there (ssl = on)")
    try:
        answer = _Conversation(plain, context, host).ask(_greeting(protocol, user))
    except ssl.SSLCertVerificationError as error:
        raise _of_certificate(error, host) from None
    except ssl.SSLError as error:
        raise _of_tls(error) from None
    if not answer:
        raise _Failed("closed", "closed the connection; its log says why")
    if protocol is Protocol.POSTGRESQL and b"client certificate" in answer:
        raise _Failed("no_certificate", _GIVE_CERTIFICATE)


class _Conversation:
    """TLS on a connection. What the server has sent is read to its end, also when it has hung up meanwhile: with
    TLS 1.3 its refusal of our certificate comes behind the handshake.
    """

    def __init__(self, plain: socket.socket, context: ssl.SSLContext, host: str) -> None:
        self._plain = plain
        self._received = ssl.MemoryBIO()
        self._to_send = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_hostname=host)

    def ask(self, text: bytes) -> bytes:
        """The beginning of the answer; nothing when the server has hung up. Raises `SSLError`, `TimeoutError`."""
        asked = False
        while True:
            try:
                if not asked:
                    self._tls.do_handshake()
                    self._tls.write(text)
                    asked = True
                return self._tls.read(_READ_BYTES)
            except ssl.SSLWantReadError:
                self._send()
                if not self._receive():
                    return b""
            except ssl.SSLError:
                self._send()  # our own alert, for the server's log
                raise

    def _send(self) -> None:
        try:
            self._plain.sendall(self._to_send.read())
        except (BrokenPipeError, ConnectionResetError):
            pass  # what it said before can still be read

    def _receive(self) -> bool:
        try:
            data = self._plain.recv(_READ_BYTES)
        except ConnectionResetError:
            return False
        self._received.write(data)
        return bool(data)


def _speaks_plain(host: str, port: int, protocol: Protocol, timeout_s: float) -> bool:
    """Whether it answers a greeting in plain text. To the beginning of TLS a Redis says nothing, and etcd hangs up."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as plain:
            plain.sendall(_greeting(protocol, ""))
            answer = plain.recv(_READ_BYTES)
    except OSError:
        return False
    return answer.startswith((b"+", b"-", b"HTTP/")) and b"HTTPS server" not in answer


def _call_plain(plain: socket.socket, protocol: Protocol, user: str) -> None:
    plain.sendall(_greeting(protocol, user))
    try:
        answer = plain.recv(_READ_BYTES)
    except ConnectionResetError:
        answer = b""
    only_tls = b"no encryption" in answer or b"SSL off" in answer
    if protocol is not Protocol.POSTGRESQL:
        only_tls = not answer or answer[0] == _TLS_ALERT or b"HTTPS server" in answer
    if only_tls:
        raise _Failed("plain_text_refused", "accepts TLS alone; name the files for it in the settings")


def _greeting(protocol: Protocol, user: str) -> bytes:
    if protocol is Protocol.REDIS:
        return b"PING\r\n"
    if protocol is Protocol.ETCD:
        return b"GET /health HTTP/1.0\r\n\r\n"
    startup = struct.pack("!i", _PROTOCOL_3) + b"user\0" + user.encode() + b"\0database\0postgres\0\0"
    return struct.pack("!i", 4 + len(startup)) + startup


def _of_certificate(error: ssl.SSLCertVerificationError, host: str) -> _Failed:
    if error.verify_code in _WRONG_NAME:
        return _Failed(
            "name_mismatch",
            f"its certificate is not for {host}; issue one that names it, or use a name that it has",
        )
    reason = _WRONG_TIME.get(error.verify_code)
    if reason == "expired":
        return _Failed(reason, "its certificate has expired, or a clock is wrong; renew it there")
    if reason == "not_yet_valid":
        return _Failed(reason, "its certificate is not valid yet; set the clocks of both machines")
    return _Failed(
        "wrong_authority",
        f"no CA in ca_file signed its certificate ({error.verify_message}); put the right CA there, or issue another",
    )


def _of_tls(error: ssl.SSLError) -> _Failed:
    said = error.reason or type(error).__name__
    if said in _NO_CERTIFICATE:
        return _Failed("no_certificate", _GIVE_CERTIFICATE)
    if "ALERT" in said:
        alert = said.partition("ALERT_")[2].replace("_", " ").lower()
        return _Failed(
            "refused_by_server",
            f"does not accept our certificate ({alert}); its CA file needs the CA that signed it",
        )
    return _Failed(
        "plain_text", f"speaks no TLS at this port ({said.replace('_', ' ').lower()}); turn it on there"
    )
