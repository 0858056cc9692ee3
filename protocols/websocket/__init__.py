"""What all WebSocket doors share."""
