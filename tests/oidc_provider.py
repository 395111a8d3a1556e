"""A real provider of OpenID Connect on a free port, made with Authlib, that tells the lies it is asked for."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import AuthorizationCodeMixin, ClientMixin, grants
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oidc.core import OpenIDCode, UserInfo
from flask import Flask, Response, jsonify, request
from joserfc.jwk import RSAKey
from werkzeug.serving import make_server

from local.free_ports import HOST, free_port

CLIENT_ID, CLIENT_SECRET = "penstock", "a secret: of/the client"
_METHODS = ("client_secret_basic", "client_secret_post")


@dataclass
class _Code(AuthorizationCodeMixin):  # type: ignore[misc]  # Authlib has no types
    code: str
    redirect_uri: str
    scope: str
    nonce: str
    code_challenge: str
    code_challenge_method: str

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope

    def get_nonce(self) -> str:
        return self.nonce

    def get_auth_time(self) -> int:
        return int(time.time())

    def get_acr(self) -> None:
        return None

    def get_amr(self) -> None:
        return None


@dataclass
class Provider:
    """Whom it signs in, and its lies: `claims` stand above the true ones of the ID token."""

    port: int
    redirect_uri: str
    subject: str = "ann-1"
    email: str = "ann@example.com"
    email_verified: Any = True
    claims: dict[str, Any] = field(default_factory=dict)
    discovery: dict[str, Any] = field(default_factory=dict)
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "one", "use": "sig"}))
    signs_with: Any = None
    """Another key than the one that it publishes."""
    algorithm: str = "RS256"
    codes: dict[str, _Code] = field(default_factory=dict)

    @property
    def issuer(self) -> str:
        return f"http://{HOST}:{self.port}"


class _Client(ClientMixin):  # type: ignore[misc]  # Authlib has no types
    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    def get_client_id(self) -> str:
        return CLIENT_ID

    def get_default_redirect_uri(self) -> str:
        return self._provider.redirect_uri

    def get_allowed_scope(self, scope: str) -> str:
        return scope

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri == self._provider.redirect_uri

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == CLIENT_SECRET

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method in _METHODS

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == "authorization_code"


def _app(provider: Provider) -> Flask:
    app = Flask("provider")
    client = _Client(provider)

    class CodeGrant(grants.AuthorizationCodeGrant):  # type: ignore[misc]  # Authlib has no types
        TOKEN_ENDPOINT_AUTH_METHODS = _METHODS

        def save_authorization_code(self, code: str, request: Any) -> None:
            asked = request.payload.data
            provider.codes[code] = _Code(
                code=code,
                redirect_uri=asked["redirect_uri"],
                scope=asked["scope"],
                nonce=asked["nonce"],
                code_challenge=asked["code_challenge"],
                code_challenge_method=asked["code_challenge_method"],
            )

        def query_authorization_code(self, code: str, client: Any) -> _Code | None:
            return provider.codes.get(code)

        def delete_authorization_code(self, authorization_code: _Code) -> None:
            provider.codes.pop(authorization_code.code, None)

        def authenticate_user(self, authorization_code: _Code) -> str:
            return provider.subject

    class Tokens(OpenIDCode):  # type: ignore[misc]  # Authlib has no types
        def exists_nonce(self, nonce: str, request: Any) -> bool:
            return False

        def get_client_algorithm(self, client: Any) -> str:
            return provider.algorithm

        def get_client_claims(self, client: Any) -> dict[str, Any]:
            now = int(time.time())
            return {"iss": provider.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300}

        def resolve_client_private_key(self, client: Any) -> Any:
            return provider.signs_with or provider.key

        def get_encode_header(self, client: Any) -> dict[str, Any]:
            return {"alg": provider.algorithm, "kid": "one"}

        def generate_user_info(self, user: str, scope: str) -> UserInfo:
            true = {"sub": user, "email": provider.email, "email_verified": provider.email_verified}
            return UserInfo(true | provider.claims)

    server = AuthorizationServer(app, query_client=lambda _: client, save_token=lambda token, request: None)
    server.register_grant(CodeGrant, [Tokens(require_nonce=True), CodeChallenge(required=True)])

    @app.get("/.well-known/openid-configuration")
    def configuration() -> Response:
        return jsonify(
            {
                "issuer": provider.issuer,
                "authorization_endpoint": f"{provider.issuer}/authorize",
                "token_endpoint": f"{provider.issuer}/token",
                "jwks_uri": f"{provider.issuer}/keys",
                "token_endpoint_auth_methods_supported": ["client_secret_basic"],
                **provider.discovery,
            }
        )

    @app.get("/keys")
    def keys() -> Response:
        return jsonify({"keys": [provider.key.as_dict(private=False)]})

    @app.get("/authorize")
    def authorize() -> Any:
        if request.args.get("sure") is None:
            # A person looks at it in a browser.
            yes = f'<a href="{request.url}&sure=1">Yes</a>'
            return f'<link rel="icon" href="data:,"><p>Sign in as {provider.email}?</p>{yes}'
        grant = server.get_consent_grant(end_user=provider.subject)
        return server.create_authorization_response(grant_user=provider.subject, grant=grant)

    @app.post("/token")
    def token() -> Any:
        return server.create_token_response()

    return app


@contextmanager
def oidc_provider(redirect_uri: str = "") -> Iterator[Provider]:
    """The provider, until the end of the block. Where it sends people back to may be set later."""
    provider = Provider(port=free_port(set()), redirect_uri=redirect_uri)
    server = make_server(HOST, provider.port, _app(provider), threaded=True)
    thread = threading.Thread(target=server.serve_forever, name="provider")
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
