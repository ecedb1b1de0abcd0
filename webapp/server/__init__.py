"""Between the socket and Quart: the limits of Uvicorn's protocol, and middleware such as the fast path of endpoints."""
