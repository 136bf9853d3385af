"""What the lab's texts are made of: lists of words, and templates that the words are put into.

In a template ``$noun`` stands for a word of the list ``noun``; ``$noun1`` for one that stands there as often as
``$noun1`` does; ``$Noun1`` and ``$NOUN1`` for the same with a capital letter, or in capitals.
"""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


LISTS: dict[str, tuple[str, ...]] = {
    "verb": _words(
        "load parse merge filter collect update resolve validate encode rank group count fetch build sort split "
        "render index archive refresh expand trim notify measure convert schedule publish rotate assign close "
        "verify export"
    ),
    "noun": _words(
        "order user token record event batch message job report file session invoice worker metric label "
        "shard target sample window request account replica header column node route bucket payload ticket "
        "segment sensor model"
    ),
    "attr": _words(
        "total name status size owner created price weight score kind version length state region offset rate "
        "limit value priority source duration level count position key amount title color depth unit "
        "balance path"
    ),
    "result": _words(
        "result found pending totals summary output matches groups kept lines rows selected latest failed ready "
        "missing ordered entries values chunks changes names seen counts buffer stack answer history chosen "
        "known active updates"
    ),
    "number": _words("0 1 2 3 5 8 10 12 16 20 24 30 32 50 60 64 90 100 120 128 200 250 256 300"),
    "compare": _words("> < >= == != <="),
    "import": (
        "import json",
        "from collections import deque",
        "import logging",
        "from datetime import timedelta",
        "import random",
        "from itertools import islice",
        "import math",
        "from pathlib import Path",
        "import asyncio",
        "from functools import partial",
        "import hashlib",
        "from statistics import median",
        "import sqlite3",
        "from contextlib import suppress",
        "import shutil",
        "from time import monotonic",
    ),
    "error": _words("ValueError KeyError RuntimeError TypeError LookupError TimeoutError"),
    "purpose": (
        "in the order they arrived",
        "that are still open",
        "and skip the empty ones",
        "from the last window",
        "before they expire",
        "for one tenant",
        "without touching the cache",
        "grouped by owner",
        "that belong together",
        "and keep the newest",
        "as plain values",
        "or fail early",
        "with a bounded buffer",
        "across all shards",
        "once per interval",
        "after a restart",
    ),
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
        "Quentin Moreau",
        "Rosa Ibarra",
        "Stefan Kowalski",
        "Tara Singh",
        "Umar Farouk",
        "Vera Petrova",
        "Willem Bakker",
        "Yuki Sato",
    ),
    "city": _words(
        "Madrid Berlin Oslo Lagos Roma Osaka Malmo Porto Zagreb Hamburg Cairo Bogota Lima Vienna Dhaka Lisbon "
        "Lyon Sevilla Warsaw Delhi Accra Sofia Utrecht Nagoya"
    ),
    "currency": _words("EUR USD GBP JPY CHF SEK"),
    "product": _words(
        "keyboard monitor notebook backpack headset lamp charger router tablet chair cable printer camera mug "
        "speaker desk mouse scanner phone drone jacket watch bottle globe"
    ),
    "money": _words(
        "4.50 7.25 9.99 12.00 14.95 18.40 19.99 24.50 29.90 35.00 39.95 42.10 49.99 55.20 64.00 72.75 79.90 "
        "85.00 99.00 110.25 129.99 149.50 180.00 215.40"
    ),
    "small": _words("1 2 3 4 5 6 7 8 9 10 12 15"),
    "status": _words("active pending shipped failed closed review paused queued retired draft"),
    "flag": ("true", "false"),
    "service": _words(
        "billing search checkout gateway ledger mailer catalog identity quota router-a scheduler telemetry "
        "uploads inference sessions webhooks"
    ),
    "region": _words("eu-west-1 us-east-2 ap-south-1 eu-north-1 sa-east-1 us-west-2 af-south-1 ca-central-1"),
    "level": _words("info warning error debug notice critical"),
    "event": (
        "request accepted",
        "connection closed by peer",
        "retry scheduled",
        "cache entry expired",
        "token refreshed",
        "queue is almost full",
        "worker restarted",
        "upload completed",
        "health check failed",
        "configuration reloaded",
        "batch flushed to disk",
        "rate limit reached",
        "certificate renewed",
        "replica promoted",
        "payload rejected",
        "session started",
    ),
    "tag": _words(
        "beta fast legacy public trial gold europe mobile retail urgent internal night wholesale silver api export"
    ),
    "hour": tuple(f"{hour:02d}" for hour in range(24)),
    "minute": tuple(f"{minute:02d}" for minute in range(0, 60, 4)),
    "date": tuple(f"2025-{month:02d}-{(month * 7) % 27 + 1:02d}" for month in range(1, 13)),
    "sujeto": (
        "el servidor de inferencia",
        "la caché de claves y valores",
        "el modelo borrador",
        "la tasa de aceptación",
        "el planificador de lotes",
        "la cola de peticiones",
        "el modelo objetivo",
        "la memoria de vídeo",
        "el núcleo de atención",
        "la ventana de medición",
        "el balanceador de carga",
        "la longitud media aceptada",
        "el muestreo por rechazo",
        "la política de reintentos",
        "el ancho de banda",
        "la distribución de tráfico",
        "el cuello de botella",
        "la generación autorregresiva",
        "el histograma de latencias",
        "la verificación en paralelo",
        "el registro de métricas",
        "la deriva del dominio",
        "el umbral de alerta",
        "la réplica más lenta",
        "el tamaño del lote",
        "la compilación del grafo",
        "el número de tokens",
        "la precisión numérica",
        "el coste por petición",
        "la configuración del clúster",
        "el operador de guardia",
        "la fase de decodificación",
    ),
    "verbo": _words(
        "reduce aumenta limita explica acelera comprueba modifica retrasa mejora oculta estima compensa decide "
        "refleja protege agota equilibra multiplica sustituye describe degrada anticipa evita concentra reparte "
        "mide absorbe confirma condiciona revela simplifica registra"
    ),
    "objeto": (
        "el tiempo hasta el primer token",
        "la latencia de cada paso",
        "los pesos de la red neuronal",
        "las propuestas rechazadas",
        "el consumo de energía",
        "la ocupación de la memoria",
        "los bloques de la caché",
        "las operaciones matriciales",
        "el rendimiento del sistema",
        "la carga de los nodos",
        "los errores de estimación",
        "las secuencias más largas",
        "el trabajo desperdiciado",
        "la presión sobre el planificador",
        "los picos de tráfico",
        "las peticiones simultáneas",
        "el margen de seguridad",
        "la calidad de la respuesta",
        "los contadores acumulados",
        "las pausas del recolector",
        "el beneficio de la especulación",
        "la variación entre réplicas",
        "los accesos a memoria global",
        "las decisiones del operador",
        "el coste de la verificación",
        "la cantidad de cómputo ocioso",
        "los tokens por segundo",
        "las alertas repetidas",
        "el intervalo de confianza",
        "la proporción de aciertos",
        "los cambios de versión",
        "las métricas del panel",
    ),
    "lugar": (
        "durante la fase de prellenado",
        "en cada iteración del motor",
        "con lotes pequeños",
        "bajo una carga sostenida",
        "en producción",
        "después de cada despliegue",
        "con contextos muy largos",
        "por debajo del umbral",
        "en la misma máquina",
        "cuando la cola está vacía",
        "según el tipo de documento",
        "a lo largo del día",
        "en tarjetas con poca memoria",
        "sin intervención manual",
        "a temperatura cero",
        "en las horas de mayor tráfico",
        "con una sola petición",
        "antes de la siguiente medición",
        "dentro del mismo clúster",
        "al cambiar de dominio",
        "en el peor de los casos",
        "con modelos cuantizados",
        "mientras dura la prueba",
        "por cada token generado",
    ),
    "conector": (
        "Además",
        "Sin embargo",
        "Por tanto",
        "En cambio",
        "Por ejemplo",
        "En consecuencia",
        "Con todo",
        "A continuación",
        "En la práctica",
        "Por último",
        "De hecho",
        "Aun así",
        "Al mismo tiempo",
        "En general",
        "Dicho de otro modo",
        "Por esa razón",
    ),
    "pronto": _words(
        "rápidamente apenas siempre gradualmente también raramente notablemente entonces todavía "
        "directamente después únicamente"
    ),
    "cifra": _words("2 3 4 5 8 10 12 16 20 25 30 40 60 64 70 80"),
}
"""Words by kind. Lists are long, so that following from word to word does not come round within one answer."""

CODE_HEADS = (
    "$import\n$import\n\n$NOUN1_LIMIT = $number\n\n\n",
    "$import\n$import\n\nlog = logging.getLogger(__name__)\n\n\n",
    '"""$Verb1 $noun1s $purpose."""\n\n$import\n\nDEFAULT_$ATTR = $number\n\n\n',
)

CODE_BLOCKS = (
    """\
def $verb1_$noun1s($noun1s, $attr1=$number):
    \"\"\"$Verb1 the $noun1s $purpose.\"\"\"
    $result1 = []
    for $noun1 in $noun1s:
        if $noun1.$attr2 $compare $attr1:
            $result1.append($noun1)
    return $result1


""",
    """\
def $verb1_by_$attr1($noun1s):
    \"\"\"$Verb1 $noun1s $purpose.\"\"\"
    $result1 = {}
    for $noun1 in $noun1s:
        key = $noun1.$attr1
        $result1[key] = $result1.get(key, $number) + $noun1.$attr2
    return $result1


""",
    """\
class $Noun1:
    \"\"\"One $noun1 with its $attr1 and $attr2.\"\"\"

    def __init__(self, $attr1, $attr2=$number):
        self.$attr1 = $attr1
        self.$attr2 = $attr2

    def $verb1(self, $noun2):
        \"\"\"$Verb1 the $noun2 $purpose.\"\"\"
        if $noun2.$attr1 $compare self.$attr1:
            raise $error("$noun2 has no $attr3")
        return $noun2.$attr2 + self.$attr2


""",
    """\
def $verb1_$noun1(path, $attr1=$number):
    \"\"\"$Verb1 the $noun1 at a path $purpose.\"\"\"
    with open(path, encoding="utf-8") as $noun1:
        $result1 = [line.strip() for line in $noun1]
    if len($result1) $compare $attr1:
        raise $error(f"cannot $verb1 {path}")
    return $result1


""",
    """\
async def $verb1_$noun1s(client, $noun1s):
    \"\"\"$Verb1 all $noun1s $purpose.\"\"\"
    $result1 = []
    for $noun1 in $noun1s:
        try:
            $result1.append(await client.$verb1($noun1.$attr1))
        except $error:
            log.warning("no %s for %s", "$attr1", $noun1)
    return $result1


""",
    """\
def $verb1_$noun1($noun1, $noun2s):
    \"\"\"$Verb1 one $noun1 $purpose.\"\"\"
    if $noun1 is None:
        return $number
    $attr1 = sum($noun2.$attr1 for $noun2 in $noun2s)
    while $attr1 $compare $noun1.$attr2:
        $attr1 -= $number
    return max($attr1, $number)


""",
    """\
def test_$verb1_$noun1_returns_$attr1():
    $noun1 = make_$noun1($attr1=$number, $attr2=$number)
    $result1 = $verb1($noun1)
    assert $result1.$attr1 == $number
    assert $result1.$attr2 $compare $noun1.$attr2


""",
    """\
def $verb1_$attr1($noun1s):
    \"\"\"Return the $attr1 of $noun1s $purpose.\"\"\"
    $result1 = sorted($noun1s, key=lambda $noun1: $noun1.$attr1)
    if not $result1:
        raise $error("there are no $noun1s to $verb1")
    return $result1[-1].$attr1


""",
)
"""Python definitions, each complete."""

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
