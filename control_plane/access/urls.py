"""Addresses of API keys."""

from django.urls import path

from control_plane.access import views

urlpatterns = [
    path("keys", views.KeysView.as_view()),
    path("keys/<str:key>", views.KeyView.as_view()),
]
