"""Addresses of signing up, in and out, and of tenants."""

from django.urls import path

from tenants import views

urlpatterns = [
    path("sign-up", views.SignUpView.as_view()),
    path("sign-in", views.SignInView.as_view()),
    path("sign-out", views.SignOutView.as_view()),
    path("tenants", views.TenantsView.as_view()),
    path("tenants/<str:tenant>", views.TenantDetailView.as_view()),
    path("tenants/<str:tenant>/suspend", views.TenantSuspendView.as_view()),
    path("tenants/<str:tenant>/resume", views.TenantResumeView.as_view()),
]
