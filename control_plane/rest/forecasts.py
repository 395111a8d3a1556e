"""REST of what a tenant's month will hold and cost, of days unlike others, and of the month by another price book."""

from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing import anomalies, forecasting, month_forecasts, previews, price_actions
from control_plane.api import shapes
from control_plane.rest.terms import CostChargeShape, CostLineShape, PreviewLineShape
from control_plane.rest.views import TenantView
from penstock.contract.errors import InvalidRequest
from penstock.rules import rating
from tenants.roles import Permission

ANOMALY_DAYS = 31
RUNNING, LAST = "running", "last"
_DIGITS_MAX = 9
_DAYS = OpenApiParameter(
    "days",
    int,
    description=f"Whole days before today, 1 to {month_forecasts.ANOMALY_DAYS_MAX}; {ANOMALY_DAYS} if not given.",
)
_BOOK = OpenApiParameter(
    "price_book_sha256", str, required=True, description="A published price book (`GET /v1/price-books`)."
)
_PERIOD = OpenApiParameter(
    "period",
    str,
    enum=[RUNNING, LAST],
    description="`running`: what is used and what is expected, to the month's end. `last`: the last invoiced period.",
)


class RangeShape(serializers.Serializer[Any]):
    low = serializers.IntegerField()
    expected = serializers.IntegerField()
    high = serializers.IntegerField()


class ForecastDayShape(serializers.Serializer[Any]):
    day = serializers.DateField()
    expected = serializers.IntegerField(help_text="Of this day; of today what is left of it.")
    up_to = RangeShape(help_text="All that is to come, to the end of this day.")


class MeterForecastShape(serializers.Serializer[Any]):
    meter = serializers.CharField()
    basis = serializers.ChoiceField(
        choices=[one.value for one in forecasting.Basis],
        source="coming.basis",
        help_text="weekdays, level, or run_rate: too little history, the mean day so far and a wide interval.",
    )
    history_days = serializers.IntegerField(
        source="coming.history_days", help_text="Whole days that it stands on."
    )
    trend_per_week = serializers.IntegerField(
        source="coming.trend_per_week",
        help_text="What a week has more than the week before; 0: no trend was seen.",
    )
    so_far = serializers.IntegerField(help_text="Counted in this period.")
    total = RangeShape(help_text="At the period's end.")
    days = ForecastDayShape(source="coming.days", many=True)


class PricedShape(serializers.Serializer[Any]):
    lines = CostLineShape(source="rated.lines", many=True)
    charges = CostChargeShape(source="charged.charges", many=True)
    total_micro = serializers.IntegerField()


class CostDayShape(serializers.Serializer[Any]):
    day = serializers.DateField()
    is_over = serializers.BooleanField(help_text="Then all three are what it was.")
    low_micro = serializers.IntegerField(help_text="What the period would cost if it ended with this day.")
    expected_micro = serializers.IntegerField()
    high_micro = serializers.IntegerField()


class CostForecastShape(serializers.Serializer[Any]):
    """All meters low, as expected, and high. Amounts are micro-units of the currency."""

    currency = serializers.CharField(source="book.currency")
    minor_digits = serializers.IntegerField(source="book.minor_digits")
    price_book_sha256 = serializers.CharField(source="book.sha256")
    low = PricedShape()
    expected = PricedShape()
    high = PricedShape()
    days = CostDayShape(many=True)


class ForecastShape(serializers.Serializer[Any]):
    begins = shapes.Moment(help_text="Where the last period was closed, or the month began.")
    ends = shapes.Moment(help_text="The month's end, UTC.")
    interval_percent = serializers.IntegerField(
        default=forecasting.INTERVAL_PERCENT, help_text="So many of 100 such intervals should hold."
    )
    history_days_min = serializers.IntegerField(
        default=forecasting.HISTORY_DAYS_MIN, help_text="Whole days that more than a run rate needs."
    )
    too_little_history = serializers.SerializerMethodField(
        help_text="A meter has too little history, or nothing was ever used: its interval was tested by no past."
    )
    meters = MeterForecastShape(many=True)
    cost = CostForecastShape(allow_null=True, help_text="null: there are no prices yet.")

    def get_too_little_history(self, forecast: month_forecasts.MonthForecast) -> bool:
        return not forecast.is_tested


class TopicPartShape(serializers.Serializer[Any]):
    topic = serializers.CharField()
    quantity = serializers.IntegerField()
    mean = serializers.IntegerField(help_text="Its mean day of the two weeks before.")


class AnomalyShape(serializers.Serializer[Any]):
    day = serializers.DateField(source="found.day")
    meter = serializers.CharField()
    quantity = serializers.IntegerField(source="found.quantity")
    expected = serializers.IntegerField(source="found.expected")
    low = serializers.IntegerField(source="found.low", help_text="Usual is from here")
    high = serializers.IntegerField(source="found.high", help_text="to here.")
    deviations_tenths = serializers.IntegerField(
        source="found.deviations_tenths",
        help_text="How far it lies from what was expected, in tenths of a robust standard deviation.",
    )
    topics = TopicPartShape(many=True, help_text="Those that made the most of the difference.")
    reason = serializers.CharField(help_text="The same in words.")


class AnomaliesShape(serializers.Serializer[Any]):
    days = serializers.IntegerField(help_text="Whole days that were looked at.")
    history_days_min = serializers.IntegerField(
        default=anomalies.HISTORY_DAYS_MIN, help_text="A day with fewer days of use before it is none."
    )
    anomalies = AnomalyShape(
        many=True, help_text=f"The newest {month_forecasts.ANOMALIES_MAX}, oldest first."
    )


class WhatIfShape(serializers.Serializer[Any]):
    """`billed` is by the prices that the period has; running, it is what is expected. Amounts are micro-units."""

    period = serializers.CharField(help_text="running or last.")
    period_start = shapes.Moment()
    period_end = shapes.Moment()
    too_little_history = serializers.BooleanField()
    billed_currency = serializers.CharField()
    currency = serializers.CharField()
    minor_digits = serializers.IntegerField()
    billed_micro = serializers.IntegerField()
    preview_micro = serializers.IntegerField()
    difference_micro = serializers.IntegerField(allow_null=True, help_text="null: the currencies differ.")
    lines = PreviewLineShape(many=True)


class ForecastView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.USAGE_READ}

    @extend_schema(
        operation_id="usage_forecast",
        parameters=[shapes.TENANT],
        responses={200: ForecastShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """What the tenant's month will hold by each meter, and cost by its own prices and terms: low, as expected,
        and high. Made of its whole days so far.
        """
        return Response(ForecastShape(month_forecasts.month_forecast(self.tenant, timezone.now())).data)


class AnomaliesView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.USAGE_READ}

    @extend_schema(
        operation_id="usage_anomalies",
        parameters=[shapes.TENANT, _DAYS],
        responses={200: AnomaliesShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """Days whose usage lies outside what the days before them said, with the topics that made the difference."""
        text = request.query_params.get("days", str(ANOMALY_DAYS))
        if (
            not text.isascii()
            or not text.isdigit()
            or len(text) > _DIGITS_MAX
            or not 1 <= int(text) <= month_forecasts.ANOMALY_DAYS_MAX
        ):
            raise InvalidRequest(f"days: {text[:20]!r}, 1 to {month_forecasts.ANOMALY_DAYS_MAX} required")
        days = int(text)
        found = month_forecasts.tenant_anomalies(self.tenant, days=days, now=timezone.now())
        return Response(AnomaliesShape({"days": days, "anomalies": found}).data)


class WhatIfView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.USAGE_READ}

    @extend_schema(
        operation_id="usage_what_if",
        parameters=[shapes.TENANT, _BOOK, _PERIOD],
        responses={200: WhatIfShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """What a period would cost by another published price book, line by line, with the tenant's own terms. Nothing
        is changed.
        """
        sha256 = request.query_params.get("price_book_sha256")
        period = request.query_params.get("period", RUNNING)
        if not sha256:
            raise InvalidRequest("price_book_sha256: name a published price book")
        if period not in (RUNNING, LAST):
            raise InvalidRequest(f"period: {period[:20]!r}; running and last are known")
        book = rating.PriceBook.read(price_actions.book_of(sha256).document)
        shown = self._running(book) if period == RUNNING else self._last(book)
        return Response(WhatIfShape({"period": period, **shown}).data)

    def _running(self, book: rating.PriceBook) -> dict[str, Any]:
        found = month_forecasts.what_if(self.tenant, book, timezone.now())
        return {
            "period_start": found.forecast.begins,
            "period_end": found.forecast.ends,
            "too_little_history": not found.forecast.is_tested,
            "billed_currency": found.own.currency,
            "currency": book.currency,
            "minor_digits": book.minor_digits,
            "billed_micro": found.own_cost.total_micro,
            "preview_micro": found.cost.total_micro,
            "difference_micro": found.difference_micro,
            "lines": found.lines,
        }

    def _last(self, book: rating.PriceBook) -> dict[str, Any]:
        found = previews.last_period(self.tenant, book, timezone.now())
        return {
            "period_start": found.invoice.cut.period_start,
            "period_end": found.invoice.cut.period_end,
            "too_little_history": False,
            "billed_currency": found.invoice.price_book.currency,
            "currency": book.currency,
            "minor_digits": book.minor_digits,
            "billed_micro": found.billed_micro,
            "preview_micro": found.preview_micro,
            "difference_micro": found.difference_micro,
            "lines": found.lines,
        }
