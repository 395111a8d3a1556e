"""Addresses of brokers' use and of moves."""

from django.urls import path

from control_plane.placement import views

urlpatterns = [
    path("cluster/brokers", views.BrokersView.as_view()),
    path("cluster/brokers/<int:broker>", views.BrokerView.as_view()),
    path("cluster/brokers/<int:broker>/drain", views.DrainView.as_view()),
    path("cluster/rebalance", views.RebalanceView.as_view()),
    path("cluster/moves", views.MovesView.as_view()),
    path("cluster/moves/<str:move>", views.MoveView.as_view()),
    path("cluster/leaders", views.LeadersView.as_view()),
]
