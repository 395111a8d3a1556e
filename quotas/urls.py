"""Addresses of limits."""

from django.urls import path

from quotas import views

urlpatterns = [path("quotas", views.QuotasView.as_view())]
