"""The demo's stock-market feed: JSON lines, the same ones every time, with the mistakes that real feeds have.

Law: a function of its seed. Files that are there already are left alone, so a second run publishes nothing new.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

EVENTS, PER_FILE, SEED = 60_000, 5_000, 20260101
SYMBOLS = {
    "technology": ("AAPL", "MSFT", "NVDA", "ORCL", "SAP", "IBM", "INTC", "AMD"),
    "media": ("DIS", "NFLX", "WBD", "SPOT"),
    "energy": ("XOM", "CVX", "SHEL", "BP"),
    "finance": ("JPM", "GS", "MS", "HSBC", "UBS"),
    "industry": ("BA", "CAT", "GE", "SIE"),
    "health": ("PFE", "NVO", "ROG", "JNJ"),
}
EXCHANGES = {"NYSE": "US", "NASDAQ": "US", "LSE": "GB", "XETRA": "DE"}


def write_feed(directory: Path, events: int = EVENTS) -> int:
    """Write the feed as files of PER_FILE lines; returns how many lines it has."""
    directory.mkdir(parents=True, exist_ok=True)
    lines = list(feed(events))
    for start in range(0, len(lines), PER_FILE):
        file = directory / f"quotes-{start // PER_FILE:03d}.json"
        if not file.exists():
            draft = directory / f".{file.name}"
            draft.write_text("".join(f"{line}\n" for line in lines[start : start + PER_FILE]))
            draft.rename(file)
    return len(lines)


def feed(events: int) -> Iterator[str]:
    """The lines: mostly quotes, about one in fifty malformed, incomplete, repeated or contradictory."""
    draw = random.Random(SEED)
    sector_of = {symbol: sector for sector, symbols in SYMBOLS.items() for symbol in symbols}
    prices = {symbol: draw.uniform(20, 400) for symbol in sector_of}
    opened = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)
    recent: list[dict[str, object]] = []
    for number in range(events):
        symbol = draw.choice(list(sector_of))
        exchange = draw.choice(list(EXCHANGES))
        change = round(draw.gauss(0, 1.5), 2)
        prices[symbol] = max(1.0, prices[symbol] * (1 + change / 100))
        quote: dict[str, object] = {
            "id": f"q{number:06d}",
            "exchange": exchange,
            "at": (opened + timedelta(milliseconds=250 * number)).isoformat(timespec="milliseconds"),
            "symbol": symbol,
            "sector": sector_of[symbol],
            "price": round(prices[symbol], 2),
            "change": change,
            "volume": int(draw.paretovariate(1.2) * 100),
            "venue": {"country": EXCHANGES[exchange], "auction": draw.random() < 0.05},
        }
        chance = draw.random()
        if chance < 0.005:
            yield json.dumps(quote)[: draw.randint(5, 60)]  # cut off in mid-line
        elif chance < 0.008:
            yield json.dumps({**quote, "id": None})
        elif chance < 0.010:
            yield json.dumps({key: value for key, value in quote.items() if key != "exchange"})
        elif chance < 0.012:
            yield json.dumps({**quote, "price": "n/a"})
        elif chance < 0.020 and recent:
            yield json.dumps(draw.choice(recent))  # sent again
        elif chance < 0.021 and recent:
            yield json.dumps({**draw.choice(recent), "price": 0.01})  # the same id, another content
        else:
            recent = [*recent[-2000:], quote]
            yield json.dumps(quote)
