"""OpenAI Realtime (GA): `RealtimeProtocol` in `realtime`, its door in `server`."""
