"""REST: the OpenAPI document."""

from typing import Any

from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.api import parameters


class DocumentView(SpectacularAPIView):
    """For every caller, without a credential. It is not in the document itself."""

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        # Where this is the first document of the process, it is made while no other is.
        parameters.by_operation()
        answer: Response = super().get(request, *args, **kwargs)  # type: ignore[no-untyped-call]
        return answer
