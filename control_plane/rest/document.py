"""REST: the OpenAPI document."""

from functools import cache

from django.http import HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from control_plane.api import parameters


class DocumentView(APIView):
    """For every caller, without a credential. It is not in the document itself."""

    authentication_classes = ()
    throttle_classes = ()
    renderer_classes = (OpenApiJsonRenderer,)

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        with parameters.making:
            # It takes half a second, which no rate of a caller bounds: so once in a process.
            document = _document()
        headers = {"Content-Disposition": 'inline; filename="Penstock.json"'}
        return HttpResponse(document, content_type=OpenApiJsonRenderer.media_type, headers=headers)


@cache
def _document() -> bytes:
    made = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]
    rendered: bytes = OpenApiJsonRenderer().render(made, renderer_context={})
    return rendered
