"""What the lab's texts are made of: lists of words, and templates that the words are put into.

In a template ``$noun`` stands for a word of the list ``noun``; ``$noun1`` for one that stands there as often as
``$noun1`` does; ``$Noun1`` and ``$NOUN1`` for the same with a capital letter, or in capitals.
"""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


LISTS: dict[str, tuple[str, ...]] = {
    # code
    "noun": _words(
        "account bucket column event file group header invoice job label message order payload record session token"
    ),
    "attr": _words("age budget count delay error folder grade height index key limit name owner price size weight"),
    "number": _words("16 256 32 4 50 64 7 8 90"),
    "compare": _words("> < == !="),
    "import": (
        "import asyncio",
        "from bisect import insort",
        "import csv",
        "from datetime import timedelta",
        "import enum",
        "from functools import partial",
        "import gzip",
        "from hashlib import sha256",
        "import json",
        "from itertools import islice",
        "import logging",
        "from operator import itemgetter",
        "import math",
        "from pathlib import Path",
        "import random",
        "from statistics import median",
    ),
    "error": _words("KeyError LookupError RuntimeError TypeError ValueError"),
    "purpose": (
        "across all shards",
        "before they expire",
        "closest to the limit",
        "during a restart",
        "every minute",
        "for one tenant",
        "grouped by owner",
        "held in memory",
        "in the order they arrived",
        "just once",
        "kept by a worker",
        "listed twice",
        "missing a key",
        "of the last window",
        "that survived",
        "without a cache",
    ),
    # JSON documents
    "person": (
        "Ada Romero",
        "Bruno Keller",
        "Carla Jensen",
        "David Okafor",
        "Elena Marino",
        "Felix Tanaka",
        "Grace Lindqvist",
        "Hugo Pereira",
        "Ines Novak",
        "Jonas Weber",
        "Karim Haddad",
        "Laura Castillo",
        "Mateo Silva",
        "Nora Fischer",
        "Omar Rahman",
        "Paula Duarte",
    ),
    "city": _words("Accra Berlin Cairo Delhi Florence Geneva Hamburg Istanbul Jakarta Kyoto Lima Madrid Nairobi Oslo"),
    "currency": _words("EUR USD GBP JPY CHF SEK"),
    "product": _words(
        "adapter backpack camera desk earphones flashlight globe headset jacket keyboard lamp monitor notebook phone"
    ),
    "money": _words("19.99 24.50 3.75 42.00 59.90 6.25 79.95 85.00 9.99"),
    "small": _words("1 2 3 4 5 6 7 8 9"),
    "status": _words("active closed delivered failed paused queued review shipped"),
    "flag": ("true", "false"),
    "service": _words("auth billing catalog deploy export gateway inference ledger mailer quota search telemetry"),
    "region": _words("ap-south-1 ca-central-1 eu-west-1 me-south-1 sa-east-1 us-east-2"),
    "level": _words("critical debug error info notice warning"),
    "event": (
        "attempt rejected",
        "batch flushed to disk",
        "cache entry expired",
        "disk almost full",
        "export finished",
        "failover started",
        "health check failed",
        "index rebuilt",
        "key rotated",
        "lease renewed",
        "order confirmed",
        "peer closed the connection",
        "queue drained",
        "retry scheduled",
        "session opened",
        "token refreshed",
    ),
    "tag": _words("api beta cold export fast gold internal legacy mobile night public retail trial urgent"),
    "hour": _words("00 13 21"),
    "minute": _words("05 10 20 30 40 50"),
    "date": _words("2025-03-14 2025-06-02 2025-09-21 2025-11-30"),
    # technical prose
    "sujeto": (
        "el ancho de banda",
        "la brecha entre réplicas",
        "el contador de aciertos",
        "la distribución del tráfico",
        "el enrutador de peticiones",
        "la fase de verificación",
        "el grafo de cómputo",
        "la heurística del planificador",
        "el índice de bloques",
        "la latencia de cola",
        "el modelo borrador",
        "la neurona de salida",
        "el operador de guardia",
        "la política de reintentos",
        "el registro de métricas",
        "la ventana de medición",
    ),
    "verbo": _words(
        "acelera bloquea compensa degrada equilibra favorece guía impide justifica limita multiplica oculta protege "
        "reduce simplifica vigila"
    ),
    "objeto": (
        "los accesos a memoria",
        "las bajadas de tensión",
        "los cambios de versión",
        "las decisiones erróneas",
        "los errores de redondeo",
        "las fases del cálculo",
        "los gastos de energía",
        "las horas de inactividad",
        "los índices invertidos",
        "las llamadas al núcleo",
        "los márgenes de seguridad",
        "las operaciones matriciales",
        "los picos de tráfico",
        "las réplicas ociosas",
        "los tokens aceptados",
        "las ventanas de contexto",
    ),
    "lugar": (
        "a temperatura cero",
        "bajo una carga sostenida",
        "con lotes pequeños",
        "durante el prellenado",
        "en cada iteración",
        "frente a otros motores",
        "gracias a la caché",
        "hasta el próximo despliegue",
        "junto al umbral",
        "lejos del óptimo",
        "mientras dura la prueba",
        "ni siquiera de noche",
        "otra vez",
        "por cada petición",
        "según el dominio",
        "tras el reinicio",
    ),
    "conector": (
        "Además",
        "Bien mirado",
        "Con todo",
        "De hecho",
        "En cambio",
        "Finalmente",
        "Globalmente",
        "Hoy en día",
        "Incluso así",
        "Luego",
        "Normalmente",
        "Ocasionalmente",
        "Por tanto",
        "Sin embargo",
        "También",
        "Visto así",
    ),
    "pronto": _words("apenas bastante claramente después enseguida gradualmente jamás raramente siempre también"),
    "cifra": _words("12 20 3 4 5 64 7 80 9"),
}
"""Words by kind. A long list has 16 or so, so that going from word to word does not come round within one answer;
words of one list begin differently where they can, so that the first letter is the choice and the rest is spelling.
"""

CODE_HEADS = (
    "$import\n$import\n\n$NOUN_LIMIT = $number\n\n\n",
    "$import\n$import\n\nlog = logging.getLogger(__name__)\n\n\n",
    '"""Work on every $noun $purpose."""\n\n$import\n\nDEFAULT_$ATTR = $number\n\n\n',
)

CODE_BLOCKS = (
    """\
def select_$noun1s($noun1s, $attr1=$number):
    \"""Keep the $noun1s $purpose.\"""
    kept = []
    for $noun1 in $noun1s:
        if $noun1.$attr1 $compare $attr1:
            kept.append($noun1)
    return kept


""",
    """\
def count_by_$attr1($noun1s):
    \"""Count the $noun1s $purpose.\"""
    counts = {}
    for $noun1 in $noun1s:
        key = $noun1.$attr1
        counts[key] = counts.get(key, 0) + 1
    return counts


""",
    """\
class $Noun1:
    \"""One $noun1 $purpose.\"""

    def __init__(self, $attr1, $attr2=$number):
        self.$attr1 = $attr1
        self.$attr2 = $attr2

    def check(self):
        \"""Fail for a $noun1 $purpose.\"""
        if self.$attr1 $compare self.$attr2:
            raise $error("bad $noun1")


""",
    """\
def load_$noun1s(path, $attr1=$number):
    \"""Load the $noun1s $purpose.\"""
    with open(path, encoding="utf-8") as lines:
        loaded = [line.strip() for line in lines]
    if len(loaded) $compare $attr1:
        raise $error(f"cannot load {path}")
    return loaded


""",
    """\
async def fetch_$noun1s(client, $noun1s):
    \"""Fetch the $noun1s $purpose.\"""
    answers = []
    for $noun1 in $noun1s:
        try:
            answers.append(await client.get($noun1.$attr1))
        except $error:
            log.warning("no answer for %s", $noun1)
    return answers


""",
    """\
def total_$attr1($noun1s):
    \"""Add up the $noun1s $purpose.\"""
    if not $noun1s:
        return $number
    total = sum($noun1.$attr1 for $noun1 in $noun1s)
    while total $compare $number:
        total -= $number
    return total


""",
    """\
def test_a_$noun1_has_its_$attr1():
    $noun1 = make($attr1=$number, $attr2=$number)
    assert $noun1.$attr1 == $number
    assert $noun1.$attr2 $compare $number


""",
    """\
def latest_$noun1($noun1s):
    \"""Find the $noun1 $purpose.\"""
    found = sorted($noun1s, key=lambda $noun1: $noun1.$attr1)
    if not found:
        raise $error("there are no $noun1s")
    return found[-1].$attr1


""",
)
"""Python definitions, each complete. What a definition is for decides its names; the data it works on is a choice."""

JSON_DOCUMENTS = (
    (
        '{\n  "store": "$city",\n  "currency": "$currency",\n  "orders": [\n',
        '    {\n      "id": #,\n      "customer": "$person",\n      "city": "$city",\n      "status": "$status",\n'
        '      "items": [\n        {"product": "$product", "quantity": $small, "price": $money},\n'
        '        {"product": "$product", "quantity": $small, "price": $money}\n      ],\n'
        '      "paid": $flag\n    }',
        ",\n",
        "\n  ]\n}\n",
    ),
    (
        '{"service": "$service", "region": "$region", "events": [\n',
        '  {"time": "$date1T$hour:$minute:00Z", "level": "$level", "message": "$event", "worker": $small,'
        ' "tags": ["$tag", "$tag"]}',
        ",\n",
        "\n]}\n",
    ),
    (
        '{\n  "team": "$service",\n  "users": [\n',
        '    {\n      "id": #,\n      "name": "$person",\n      "address": {"city": "$city", "zone": "$region"},\n'
        '      "roles": ["$tag", "$tag"],\n      "active": $flag,\n      "since": "$date"\n    }',
        ",\n",
        "\n  ]\n}\n",
    ),
    (
        '{"kind": "Deployment", "cluster": "$region", "services": [\n',
        '  {"name": "$service", "replicas": $small, "resources": {"cpu": $small, "memory_gb": $number},'
        ' "status": "$status", "owner": "$person", "labels": {"tier": "$tag", "stage": "$tag"}}',
        ",\n",
        "\n]}\n",
    ),
    (
        '{\n  "device": "$product",\n  "readings": [\n',
        '    {"at": "$hour:$minute", "metric": "$attr", "value": $money, "unit": "$currency", "valid": $flag}',
        ",\n",
        "\n  ]\n}\n",
    ),
)
"""Opening, one record (``#`` is a running number), separator and closing."""

PROSE_HEADS = (
    "## $Sujeto\n\n",
    "## Cómo $sujeto $verbo $objeto\n\n",
    "## Caso $cifra: $sujeto\n\n",
)

PROSE_SENTENCES = (
    "$conector, $sujeto $verbo $objeto $lugar. ",
    "$Sujeto $verbo $pronto $objeto. ",
    "Si $sujeto $verbo $objeto, $sujeto $verbo $pronto $objeto. ",
    "$Lugar, $sujeto no $verbo $objeto, sino $objeto. ",
    "$conector, $objeto y $objeto condicionan $objeto. ",
    "La figura $cifra muestra cómo $sujeto $verbo $objeto $lugar. ",
    "$Sujeto, que $verbo $objeto, $verbo también $objeto. ",
    "Hay $cifra razones por las que $sujeto $verbo $objeto. ",
    "Cuando $sujeto $verbo $objeto $lugar, conviene revisar $objeto. ",
    "No basta con medir $objeto: $sujeto $verbo $pronto $objeto. ",
    "Con $cifra réplicas, $sujeto $verbo $objeto un $cifra % más. ",
    "$conector, ¿por qué $sujeto $verbo $objeto? Porque $sujeto $verbo $objeto. ",
)
