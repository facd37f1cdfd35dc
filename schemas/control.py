"""The control tables: what users write, by SQL, to say who wants what and who may see it.

Law: a row needs only the columns that carry its meaning; everything else has a default. A row that makes no sense is
skipped and shown in `rejections`: it never stops the stream.
"""

from __future__ import annotations

from pyspark.sql.types import (
    BooleanType,
    DoubleType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from schemas.table import Table, column

CONSUMER, FILTER, ID = "consumer", "filter", "id"
EXPIRES_AT, CREATED_AT, CREATED_BY = "expires_at", "created_at", "created_by"

# As a partition value either of these reads back as NULL, so no party may bear such a name.
NAMED = "{0} <> '' AND {0} <> '__HIVE_DEFAULT_PARTITION__'"

_TEXT, _TIME, _PROPERTIES = StringType(), TimestampType(), MapType(StringType(), StringType())


def _audit() -> list[StructField]:
    return [
        column(CREATED_AT, _TIME, "when the row was written", default="current_timestamp()"),
        column(CREATED_BY, _TEXT, "who wrote the row", default="session_user()"),
    ]


SUBSCRIPTIONS = Table(
    "subscriptions",
    "Who wants which events. One row subscribes: INSERT INTO subscriptions (consumer, filter) VALUES (…, …)",
    StructType(
        [
            column(CONSUMER, _TEXT, "the party to be notified", required=True),
            column(FILTER, _TEXT, "a SQL predicate over the attributes of an event", required=True),
            column(
                ID, _TEXT, "names the subscription within its consumer; omitted, it is a hash of consumer and filter"
            ),
            column(EXPIRES_AT, _TIME, "the subscription matches nothing in batches that start after this"),
            column("context", _TEXT, "the semantic context in which notifications are wanted"),
            column("replay_from", _TIME, "also deliver past events that match, from this time on"),
            *_audit(),
        ]
    ),
    control=True,
    constraints={"consumer_is_named": NAMED.format(CONSUMER)},
)

ADVERTISEMENTS = Table(
    "advertisements",
    "What a producer says it will publish",
    StructType(
        [
            column("publisher", _TEXT, "the producer", required=True),
            column(
                FILTER,
                _TEXT,
                "a SQL predicate, or a list of constraints, that covers what will be published",
                required=True,
            ),
            column(
                "form",
                _TEXT,
                "filter: a predicate; constraints: every attribute must satisfy one of its constraints",
                default="'filter'",
            ),
            column(
                ID, _TEXT, "names the advertisement within its publisher; omitted, it is a hash of publisher and filter"
            ),
            column(EXPIRES_AT, _TIME, "the advertisement covers nothing in batches that start after this"),
            *_audit(),
        ]
    ),
    control=True,
    constraints={"form_is_known": "form IN ('filter', 'constraints')"},
)

COMPONENTS = Table(
    "components",
    "What is known of a producer or consumer beyond its name; a party needs no row here to take part",
    StructType(
        [
            column("component", _TEXT, "the producer or consumer", required=True),
            column("properties", _PROPERTIES, "what delivery policies look at, such as region or priority"),
            column("broker", _TEXT, "the broker that the component is attached to"),
            column(
                "suspended",
                BooleanType(),
                "while true, notifications are kept and handed over on resume",
                default="false",
            ),
            *_audit(),
        ]
    ),
    control=True,
    constraints={"component_is_named": NAMED.format("component")},
)

SCOPES = Table(
    "scopes",
    "Named bundles of components that delimit visibility",
    StructType(
        [
            column("scope", _TEXT, "the name of the scope", required=True),
            column(
                "delivery",
                _TEXT,
                "delivery policy: all, one_of_n, k_of_n(k), first_matching(attribute), filter(predicate)",
                default="'all'",
            ),
            column(
                "publishing",
                _TEXT,
                "publishing policy: forward, discard, sample(p), rate_limit(n, interval), throttle(key, …), delay(…)",
                default="'forward'",
            ),
            column("input_filter", _TEXT, "interface: what may come down into the scope, on every edge"),
            column("input_mapping", _TEXT, "interface: assignments applied on the way down"),
            column("output_filter", _TEXT, "interface: what may go up out of the scope, on every edge"),
            column("output_mapping", _TEXT, "interface: assignments applied on the way up"),
            *_audit(),
        ]
    ),
    control=True,
    constraints={"scope_is_named": NAMED.format("scope")},
)

SCOPE_EDGES = Table(
    "scope_edges",
    "The scope graph: a child, a component or a scope, is in the parent scope",
    StructType(
        [
            column("child", _TEXT, "a component or a scope", required=True),
            column("parent", _TEXT, "its superscope", required=True),
            column("up_filter", _TEXT, "what may cross from the child to the parent"),
            column("up_mapping", _TEXT, "assignments applied on the way up"),
            column("down_filter", _TEXT, "what may cross from the parent to the child"),
            column("down_mapping", _TEXT, "assignments applied on the way down"),
            *_audit(),
        ]
    ),
    control=True,
)

BROKERS = Table(
    "brokers",
    "The nodes of the overlay network",
    StructType(
        [
            column("broker", _TEXT, "the name of the broker", required=True),
            column("level", _TEXT, "broker, cluster, super_cluster or super_super_cluster", default="'broker'"),
            column("member_of", _TEXT, "the unit of the next level that it belongs to"),
            *_audit(),
        ]
    ),
    control=True,
)

BROKER_LINKS = Table(
    "broker_links",
    "The links between brokers",
    StructType(
        [
            column("source", _TEXT, "one end", required=True),
            column("target", _TEXT, "the other end", required=True),
            column("kind", _TEXT, "peer, or child (target is the master of source)", default="'peer'"),
            column("cost", DoubleType(), "the cost of sending over the link", default="1.0D"),
            *_audit(),
        ]
    ),
    control=True,
)

CONCEPTS = Table(
    "concepts",
    "The ontology: concepts, their hierarchy, and the attributes bound to them",
    StructType(
        [
            column("concept", _TEXT, "the concept", required=True),
            column("parent", _TEXT, "the concept that it specialises"),
            column("attribute", _TEXT, "an attribute bound to the concept"),
            column("publisher", _TEXT, "the binding holds for this publisher only"),
            column("source", _TEXT, "the binding holds for this source only"),
            column("context", _PROPERTIES, "the semantic context of the attribute: unit, scale, currency …"),
            *_audit(),
        ]
    ),
    control=True,
)

CONVERSIONS = Table(
    "conversions",
    "How a value moves from one semantic context to another, and when",
    StructType(
        [
            column("concept", _TEXT, "the concept whose values are converted", required=True),
            column("aspect", _TEXT, "the part of the context that differs: unit, scale, currency …", required=True),
            column("from_value", _TEXT, "the aspect's value before", required=True),
            column("to_value", _TEXT, "the aspect's value after", required=True),
            column("factor", DoubleType(), "multiply by this", default="1.0D"),
            column("addend", DoubleType(), "then add this", default="0.0D"),
            column("valid_from", _TIME, "the conversion holds from this time on"),
            column("valid_to", _TIME, "and before this one"),
            *_audit(),
        ]
    ),
    control=True,
)

GRANTS = Table(
    "grants",
    "Who may do what: join, publish in or subscribe in a scope, or act for a consumer",
    StructType(
        [
            column("principal", _TEXT, "a user or a group", required=True),
            column("action", _TEXT, "join, publish, subscribe, or act_for", required=True),
            column("object", _TEXT, "the scope or the consumer", required=True),
            column("priority", IntegerType(), "of two grants the higher one counts", default="0"),
            column("allowed", BooleanType(), "false forbids", default="true"),
            *_audit(),
        ]
    ),
    control=True,
    constraints={"action_is_known": "action IN ('join', 'publish', 'subscribe', 'act_for')"},
)

CONTROL = (
    SUBSCRIPTIONS,
    ADVERTISEMENTS,
    COMPONENTS,
    SCOPES,
    SCOPE_EDGES,
    BROKERS,
    BROKER_LINKS,
    CONCEPTS,
    CONVERSIONS,
    GRANTS,
)
