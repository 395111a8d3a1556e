"""Addresses of topics."""

from django.urls import path

from control_plane.topics import views

urlpatterns = [
    path("topics", views.TopicsView.as_view()),
    path("topics/<str:name>", views.TopicView.as_view()),
    path("topics/<str:name>/durability", views.TopicDurabilityView.as_view()),
]
