"""Telephone networks: `TwilioProtocol` in `twilio`, its door in `server`."""
