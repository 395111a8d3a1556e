"""Addresses of the console. A tenant's pages stand under its name."""

app_name = "web"
urlpatterns: list[object] = []
