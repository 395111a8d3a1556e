"""Addresses of billing, under /v1/."""

from django.urls import path

from billing import views

urlpatterns = [
    path("usage", views.UsageView.as_view()),
    path("availability", views.AvailabilityView.as_view()),
    path("costs", views.CostView.as_view()),
    path("invoices", views.InvoicesView.as_view()),
    path("invoices/<str:invoice>", views.InvoiceView.as_view()),
    path("invoices/<str:invoice>/evidence", views.EvidenceView.as_view()),
    path("credit-notes", views.CreditNotesView.as_view()),
    path("credit-notes/<str:credit_note>", views.CreditNoteView.as_view()),
    path("price-books", views.PriceBooksView.as_view()),
    path("billing/chain", views.ChainView.as_view()),
    path("billing/cuts", views.CutsView.as_view()),
    path("billing/cuts/<str:cut>", views.CutView.as_view()),
    path("billing/cuts/<str:cut>/mend", views.MendView.as_view()),
    path("billing/drafts", views.DraftsView.as_view()),
    path("billing/data-sets", views.DataSetsView.as_view()),
]
