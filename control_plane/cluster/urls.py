"""Addresses of the cluster view."""

from django.urls import path

from control_plane.cluster import views

urlpatterns = [
    path("cluster", views.ClusterDetailView.as_view()),
    path("cluster/losses", views.LossesView.as_view()),
]
