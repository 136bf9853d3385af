"""``/api/v1/store``: whether what is known outlives the process."""

from __future__ import annotations

from fastapi import APIRouter

from specwatch.sidecar.store.database import Database, StoreStatus


def router(database: Database) -> APIRouter:
    """Reading how the database does."""
    routes = APIRouter(prefix="/api/v1")

    @routes.get("/store")
    async def read_store() -> StoreStatus:
        """Where state is kept, whether the last write reached the disk, and why not."""
        return database.status

    return routes
