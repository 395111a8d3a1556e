"""Every address under /v1/."""

from django.urls import path
from drf_spectacular.renderers import OpenApiJsonRenderer
from drf_spectacular.views import SpectacularAPIView

from control_plane.rest import (
    accounts,
    audit,
    billing,
    cluster,
    keys,
    people,
    placement,
    quotas,
    tenants,
    topics,
)

urlpatterns = [
    path("sign-up", tenants.SignUpView.as_view()),
    path("sign-in", tenants.SignInView.as_view()),
    path("sign-out", tenants.SignOutView.as_view()),
    path("tenants", tenants.TenantsView.as_view()),
    path("tenants/<str:tenant>", tenants.TenantDetailView.as_view()),
    path("tenants/<str:tenant>/suspend", tenants.TenantSuspendView.as_view()),
    path("tenants/<str:tenant>/resume", tenants.TenantResumeView.as_view()),
    path("people", people.PeopleView.as_view()),
    path("people/<str:person>", people.PersonView.as_view()),
    path("invitations", people.InvitationsView.as_view()),
    path("invitations/<str:invitation>", people.InvitationView.as_view()),
    path("join", people.JoinView.as_view()),
    path("password", accounts.PasswordView.as_view()),
    path("sign-ins", accounts.SignInsView.as_view()),
    path("sign-ins/<str:sign_in>", accounts.SignInView.as_view()),
    path("topics", topics.TopicsView.as_view()),
    path("topics/<str:name>", topics.TopicView.as_view()),
    path("topics/<str:name>/durability", topics.TopicDurabilityView.as_view()),
    path("keys", keys.KeysView.as_view()),
    path("keys/<str:key>", keys.KeyView.as_view()),
    path("quotas", quotas.QuotasView.as_view()),
    path("audit", audit.AuditView.as_view()),
    path("audit/head", audit.AuditHeadView.as_view()),
    path("cluster", cluster.ClusterDetailView.as_view()),
    path("cluster/losses", cluster.LossesView.as_view()),
    path("cluster/brokers", placement.BrokersView.as_view()),
    path("cluster/brokers/<int:broker>", placement.BrokerView.as_view()),
    path("cluster/brokers/<int:broker>/drain", placement.DrainView.as_view()),
    path("cluster/rebalance", placement.RebalanceView.as_view()),
    path("cluster/moves", placement.MovesView.as_view()),
    path("cluster/moves/<str:move>", placement.MoveView.as_view()),
    path("cluster/leaders", placement.LeadersView.as_view()),
    path("usage", billing.UsageView.as_view()),
    path("availability", billing.AvailabilityView.as_view()),
    path("costs", billing.CostView.as_view()),
    path("invoices", billing.InvoicesView.as_view()),
    path("invoices/<str:invoice>", billing.InvoiceView.as_view()),
    path("invoices/<str:invoice>/evidence", billing.EvidenceView.as_view()),
    path("credit-notes", billing.CreditNotesView.as_view()),
    path("credit-notes/<str:credit_note>", billing.CreditNoteView.as_view()),
    path("price-books", billing.PriceBooksView.as_view()),
    path("billing/chain", billing.ChainView.as_view()),
    path("billing/cuts", billing.CutsView.as_view()),
    path("billing/cuts/<str:cut>", billing.CutView.as_view()),
    path("billing/cuts/<str:cut>/finalize", billing.FinalizeView.as_view()),
    path("billing/drafts", billing.DraftsView.as_view()),
    path("billing/data-sets", billing.DataSetsView.as_view()),
    path(
        "openapi.json",
        SpectacularAPIView.as_view(
            authentication_classes=[], throttle_classes=[], renderer_classes=[OpenApiJsonRenderer]
        ),
    ),
]
