# SPDX-License-Identifier: Apache-2.0

"""Answers queries for Prometheus from scrapes, as far as ours go.

Parsed by ``promql-parser``; what is evaluated here is the part of PromQL
that our rules and dashboards use. A query that uses more fails the test, which
then has to learn it.
"""

from collections.abc import Callable, Mapping
import dataclasses
import datetime
import operator
import re
import time
from typing import TypeAlias

from prometheus_client import parser
import promql_parser

#: (label, value) of one series.
Labels: TypeAlias = frozenset[tuple[str, str]]
Vector: TypeAlias = dict[Labels, float]
Value: TypeAlias = Vector | float

_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    '-': operator.sub,
    '/': lambda a, b: a / b if b else float('nan'),
}
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    '==': operator.eq,
    '>': operator.gt,
}
_AGGREGATIONS: Mapping[str, Callable[[list[float]], float]] = {
    'sum': sum,
    'max': max,
    'min': min,
    'avg': lambda values: sum(values) / len(values),
}

#: These need series of counters only; their value does not matter here.
_OF_RANGES = ('rate', 'increase')

#: And these the last value that was scraped, as the only one of the range.
_OF_GAUGES = ('max_over_time',)


#: How long ago the earlier scrape was.
_BEFORE = datetime.timedelta(hours=2)


class UnknownSeries(Exception):
    """A query names a metric or a label that nobody has."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    name: str
    labels: Mapping[str, str]
    value: float


class Prometheus:
    """What was scraped of one instance.

    :param text: in the text format of Prometheus
    :param before: what was scraped two hours ago, and not since
    """

    def __init__(
        self, text: str, instance: str = 'host1:9105', before: str = ''
    ) -> None:
        self.types: dict[str, str] = {}
        self.series = self._read(text, instance)
        self.before = self._read(before, instance)

    def _read(self, text: str, instance: str) -> list[Series]:
        found = []
        for family in parser.text_string_to_metric_families(text):
            for one in family.samples:
                self.types[one.name] = family.type
                found.append(
                    Series(
                        name=one.name,
                        labels={**one.labels, 'instance': instance},
                        value=one.value,
                    )
                )
        return found

    def ask(self, query: str) -> Value:
        """Evaluate a query.

        :raises UnknownSeries: nobody has such a metric, or such a label
        """
        return self._evaluate(promql_parser.parse(query))

    def _evaluate(self, expr: promql_parser.Expr) -> Value:
        match expr:
            case promql_parser.NumberLiteral():
                return float(expr.val)
            case promql_parser.ParenExpr():
                return self._evaluate(expr.expr)
            case promql_parser.VectorSelector():
                return self._select(expr)
            case promql_parser.Call():
                return self._call(expr)
            case promql_parser.AggregateExpr():
                return self._aggregate(expr)
            case promql_parser.BinaryExpr():
                return _combine(
                    str(expr.op),
                    self._evaluate(expr.lhs),
                    self._evaluate(expr.rhs),
                )
        raise NotImplementedError(f'{expr} is not evaluated here')

    def _select(
        self,
        expr: promql_parser.VectorSelector,
        reach: datetime.timedelta = datetime.timedelta(),
    ) -> Vector:
        # The later value of a series comes last.
        series = [*(self.before if reach > _BEFORE else ()), *self.series]
        of_name = [one for one in series if one.name == expr.name]
        if not of_name:
            raise UnknownSeries(f'there is no metric {expr.name}')
        for matcher in expr.matchers.matchers:
            self._check_label(expr.name, matcher.name)
            of_name = [one for one in of_name if _matches(one, matcher)]
        return {
            frozenset({('__name__', one.name), *one.labels.items()}): one.value
            for one in of_name
        }

    def _check_label(self, name: str | None, label: str) -> None:
        if not any(
            label in one.labels
            for one in (*self.before, *self.series)
            if one.name == name
        ):
            raise UnknownSeries(f'metric {name} has no label {label}')

    def _call(self, expr: promql_parser.Call) -> Value:
        if expr.func.name == 'time':
            return time.time()
        if expr.func.name not in (*_OF_RANGES, *_OF_GAUGES):
            raise NotImplementedError(expr.func.name)
        (matrix,) = expr.args
        selector = matrix.vector_selector
        kind = 'gauge' if expr.func.name in _OF_GAUGES else 'counter'
        if self.types.get(selector.name) != kind:
            raise UnknownSeries(f'{selector.name} is no {kind}')
        return _drop_names(self._select(selector, matrix.range))

    def _aggregate(self, expr: promql_parser.AggregateExpr) -> Vector:
        vector = self._evaluate(expr.expr)
        assert isinstance(vector, dict), 'a scalar cannot be aggregated'
        wanted = expr.modifier.labels if expr.modifier else []
        found = {name for labels in vector for name, _value in labels}
        if vector and not set(wanted) <= found:
            raise UnknownSeries(f'{expr} has no {set(wanted) - found}')
        groups: dict[Labels, list[float]] = {}
        for labels, value in vector.items():
            key = frozenset(one for one in labels if one[0] in wanted)
            groups.setdefault(key, []).append(value)
        aggregate = _AGGREGATIONS[str(expr.op)]
        return {key: aggregate(values) for key, values in groups.items()}


def _matches(one: Series, matcher: promql_parser.Matcher) -> bool:
    value = one.labels.get(matcher.name, '')
    op = promql_parser.MatchOp
    if matcher.op in (op.Re, op.NotRe):
        is_match = re.fullmatch(matcher.value, value) is not None
    else:
        is_match = matcher.value == value
    return is_match is (matcher.op in (op.Equal, op.Re))


def _drop_names(vector: Vector) -> Vector:
    return {
        frozenset(one for one in labels if one[0] != '__name__'): value
        for labels, value in vector.items()
    }


def _combine(op: str, left: Value, right: Value) -> Value:
    """Apply an operator; of two vectors, series with the same labels."""
    if op in _COMPARISONS:
        assert isinstance(left, dict) and isinstance(right, float)
        compare = _COMPARISONS[op]
        return {k: v for k, v in left.items() if compare(v, right)}
    apply = _ARITHMETIC[op]
    if isinstance(left, float):
        assert isinstance(right, dict), 'no query has two scalars'
        return {k: apply(left, v) for k, v in _drop_names(right).items()}
    if isinstance(right, float):
        return {k: apply(v, right) for k, v in _drop_names(left).items()}
    left, right = _drop_names(left), _drop_names(right)
    return {k: apply(v, right[k]) for k, v in left.items() if k in right}
