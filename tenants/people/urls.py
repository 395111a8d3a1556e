"""Addresses of people and invitations."""

from django.urls import path

from tenants.people import views

urlpatterns = [
    path("people", views.PeopleView.as_view()),
    path("people/<str:person>", views.PersonView.as_view()),
    path("invitations", views.InvitationsView.as_view()),
    path("invitations/<str:invitation>", views.InvitationView.as_view()),
    path("join", views.JoinView.as_view()),
]
