"""Addresses of a person's own account."""

from django.urls import path

from tenants.accounts import views

urlpatterns = [
    path("password", views.PasswordView.as_view()),
    path("sign-ins", views.SignInsView.as_view()),
    path("sign-ins/<str:sign_in>", views.SignInView.as_view()),
]
