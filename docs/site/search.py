"""A hook of mkdocs: what the site's search shows first, and the words by which people ask for a page."""

from typing import Any

from mkdocs.exceptions import PluginError

RANKS = {
    "guides/": 1_000.0,
    "README.md": 500.0,
    "project.md": 300.0,
    "reference/": 100.0,
    "decisions/": 1e-6,
    "benchmarks/": 0.01,
    "changelog.md": 1e-4,
}
"""Factors of a page's relevance by the beginning of its path. Other pages, how it works, have 1. A factor of a thousand
outweighs a word in a title, so a guide that has the word stands before each decision.
"""
ASKED_BY = {
    "guides/access-reports.md": ("report", "review", "unused", "compliance"),
    "guides/audit.md": ("audit", "log", "who did what", "history of changes", "siem"),
    "guides/budgets.md": ("budget", "spending", "alert", "cap", "cost limit"),
    "guides/certificates.md": ("tls", "ssl", "mtls", "certificate", "ca"),
    "guides/cli.md": ("cli", "terminal", "shell", "completion", "json", "profile", "doctor"),
    "guides/console.md": ("console", "browser", "dashboard", "web interface", "ui", "keyboard"),
    "guides/declared.md": ("yaml", "diff", "apply", "gitops", "declarative", "export"),
    "guides/delivery-guarantees.md": (
        *("exactly once", "at least once", "duplicate", "order", "ordering", "durability", "fsync", "acks"),
        "idempotent",
    ),
    "guides/developing-it.md": ("test", "mutant", "chaos", "simulator", "contribute"),
    "guides/groups.md": (
        "queues",
        "consumer group",
        "rebalance",
        "lag",
        "offset",
        "commit",
        "replay",
        "seek",
    ),
    "guides/installing.md": ("install", "pip", "wheel", "sdk", "python client", "download"),
    "guides/keys-and-access.md": (
        *(
            "key",
            "api key",
            "token",
            "permission",
            "acl",
            "access list",
            "service account",
            "rotate",
            "revoke",
        ),
        "credentials",
    ),
    "guides/metadata-store.md": ("backup", "restore", "etcd", "sqlite", "metadata"),
    "guides/own-hosts.md": ("docker", "container", "kubernetes", "cluster", "systemd", "deploy", "zone"),
    "guides/payments.md": (
        *(
            "taxes",
            "vat",
            "stripe",
            "card",
            "pay",
            "bank",
            "refund",
            "reminder",
            "overdue",
            "coupon",
            "billing",
        ),
        "invoice",
    ),
    "guides/people.md": (
        *(
            "login",
            "log in",
            "sign in",
            "sign up",
            "password",
            "mfa",
            "2fa",
            "passkey",
            "totp",
            "sso",
            "oidc",
        ),
        *("user", "role", "invite", "organisation", "e-mail", "close account", "delete account"),
    ),
    "guides/placement.md": ("balancer", "skew", "move partition", "cell", "hot broker", "rebalance brokers"),
    "guides/producers-and-consumers.md": (
        *("producer", "consumer", "publish", "subscribe", "send", "read", "poll", "asyncio", "partition key"),
        *("header", "compression", "serializer", "hot key", "batch"),
    ),
    "guides/quickstart.md": (
        "quick start",
        "getting started",
        "tutorial",
        "first message",
        "hello world",
        "try",
    ),
    "guides/recycle-bin.md": ("delete topic", "undelete", "restore topic", "purge", "trash"),
    "guides/running-it.md": (
        *(
            "docker",
            "postgresql",
            "redis",
            "drain",
            "monitoring",
            "prometheus",
            "log file",
            "operate",
            "deploy",
        ),
        *("broker", "health", "pipeline interval"),
    ),
    "guides/terraform.md": ("terraform", "infrastructure as code", "provider"),
    "guides/unit-economics.md": ("margin", "focus", "profit", "infrastructure cost"),
    "guides/upgrading.md": ("upgrade", "downgrade", "version", "migration", "release", "rollback"),
    "guides/usage-and-verification.md": (
        *(
            "prices",
            "pricing",
            "cost",
            "how much",
            "usage",
            "bill",
            "invoice",
            "verify",
            "proof",
            "receipt",
            "forecast",
        ),
        "tag",
    ),
    "guides/webhooks.md": ("webhook", "callback", "notification", "signature", "slack"),
    "reference/errors.md": ("error code", "exception", "retry"),
    "reference/limits.md": ("limit", "quota", "maximum", "rate limit", "message size"),
    "reference/rest.md": ("rest", "http", "openapi", "curl", "endpoint"),
    "reference/topic-settings.md": ("retention", "topic setting", "replication factor", "max message"),
    "reference/settings.md": ("configuration", "environment variable", "config file"),
    "reference/metrics.md": ("metric", "prometheus", "grafana"),
    "glossary.md": ("term", "definition", "meaning"),
}
"""Words for what a page is about that its text need not have, as readers type them who know other services. What was
typed is the beginning of a word, so the longer form of two is the one to write: `queues` is there for "queue", too.
"""
_UNNAMED = 'data-md-component="search" role="dialog"'


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    path = page.file.src_uri
    ranks = [rank for beginning, rank in RANKS.items() if path.startswith(beginning)]
    page.meta["search"] = {"boost": ranks[0] if ranks else 1.0}
    if path in ASKED_BY:
        page.meta["tags"] = list(ASKED_BY[path])
    return markdown


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    """The theme gives its box of the search no name, which a screen reader needs."""
    if _UNNAMED not in output:
        raise PluginError(
            "The theme's box of the search is another one: give it its name in docs/site/search.py."
        )
    return output.replace(_UNNAMED, f'{_UNNAMED} aria-label="Search"')
