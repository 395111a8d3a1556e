"""Addresses of the console. A tenant's pages stand under its name."""

from django.urls import URLPattern, path

from web.views import (
    account,
    audit,
    groups,
    invoices,
    keys,
    messages,
    operator_tenants,
    operators,
    overview,
    people,
    topics,
    usage,
)

app_name = "web"

TENANT = "t/<str:tenant>"
urlpatterns: list[URLPattern] = [
    path("", account.home, name="home"),
    path("sign-in", account.sign_in, name="sign-in"),
    path("sign-up", account.sign_up, name="sign-up"),
    path("sign-out", account.sign_out, name="sign-out"),
    path("new-tenant", account.new_tenant, name="new-tenant"),
    path("join/<str:token>", people.join, name="join"),
    path(f"{TENANT}", overview.overview, name="overview"),
    path(f"{TENANT}/overview/live", overview.overview_live, name="overview-live"),
    path(f"{TENANT}/topics", topics.topics, name="topics"),
    path(f"{TENANT}/new-topic", topics.new_topic, name="new-topic"),
    path(f"{TENANT}/topics/<str:name>", topics.topic, name="topic"),
    path(f"{TENANT}/topics/<str:name>/live", topics.topic_live, name="topic-live"),
    path(f"{TENANT}/topics/<str:name>/settings", topics.edit_topic, name="edit-topic"),
    path(f"{TENANT}/topics/<str:name>/delete", topics.delete_topic, name="delete-topic"),
    path(f"{TENANT}/topics/<str:name>/messages", messages.messages, name="messages"),
    path(f"{TENANT}/topics/<str:name>/messages/tail", messages.tail, name="tail"),
    path(
        f"{TENANT}/topics/<str:name>/messages/<str:partition>/<str:offset>", messages.message, name="message"
    ),
    path(
        f"{TENANT}/topics/<str:name>/messages/<str:partition>/<str:offset>/value",
        messages.message_value,
        name="message-value",
    ),
    path(f"{TENANT}/topics/<str:name>/send", messages.produce, name="produce"),
    path(f"{TENANT}/groups", groups.groups, name="groups"),
    path(f"{TENANT}/groups/live", groups.groups_live, name="groups-live"),
    path(f"{TENANT}/group", groups.group, name="group"),
    path(f"{TENANT}/group/live", groups.group_live, name="group-live"),
    path(f"{TENANT}/group/reset", groups.reset_group, name="reset-group"),
    path(f"{TENANT}/keys", keys.keys, name="keys"),
    path(f"{TENANT}/new-key", keys.new_key, name="new-key"),
    path(f"{TENANT}/keys/<str:key>/rotate", keys.rotate_key, name="rotate-key"),
    path(f"{TENANT}/keys/<str:key>/revoke", keys.revoke_key, name="revoke-key"),
    path(f"{TENANT}/usage", usage.usage, name="usage"),
    path(f"{TENANT}/invoices", invoices.invoices, name="invoices"),
    path(f"{TENANT}/invoices/<str:invoice>", invoices.invoice, name="invoice"),
    path(f"{TENANT}/invoices/<str:invoice>/lines/<str:meter>", invoices.line_evidence, name="line-evidence"),
    path(f"{TENANT}/invoices/<str:invoice>/verify", invoices.verify, name="verify"),
    path(f"{TENANT}/invoices/<str:invoice>/proof", invoices.proof, name="proof"),
    path(f"{TENANT}/people", people.people, name="people"),
    path(f"{TENANT}/invite", people.invite, name="invite"),
    path(f"{TENANT}/invitations/<str:invitation>/withdraw", people.withdraw, name="withdraw-invitation"),
    path(f"{TENANT}/people/<str:member>/role", people.change_role, name="change-role"),
    path(f"{TENANT}/people/<str:member>/remove", people.remove, name="remove-person"),
    path(f"{TENANT}/audit", audit.audit, name="audit"),
    path(f"{TENANT}/audit/chain", audit.chain, name="audit-chain"),
    path("operator", operators.operator, name="operator"),
    path("operator/live", operators.operator_live, name="operator-live"),
    path("operator/partitions", operators.partitions, name="operator-partitions"),
    path("operator/tenants", operator_tenants.tenants, name="operator-tenants"),
    path("operator/tenants/<str:tenant>", operator_tenants.tenant, name="operator-tenant"),
    path("operator/tenants/<str:tenant>/suspended", operator_tenants.suspend, name="operator-suspend"),
    path("operator/sign-in", operators.sign_in, name="operator-sign-in"),
    path("operator/sign-out", operators.sign_out, name="operator-sign-out"),
]
