#!/usr/bin/env python3
"""Owns: a stand-in for performance_test with the routes of the experiment: workers are permits, coroutines are tasks."""

import argparse
import asyncio
from pathlib import Path

COUNT = 0


async def respond_to(path: str, workers: asyncio.Semaphore, files: Path) -> tuple[int, bytes]:
    global COUNT
    parts = path.strip("/").split("/")
    if parts[0] == "count":
        COUNT += 1
        return 200, str(COUNT).encode()
    if parts[0] == "sleep200":
        if parts[1:] == ["worker"]:
            async with workers:
                await asyncio.sleep(0.2)
        else:
            await asyncio.sleep(0.2)
        return 200, b"slept"
    if parts[0] == "static":
        return 200, (files / parts[1]).read_bytes()
    if parts == [""]:
        return 200, b"Hello, World!"
    return 404, b"no"


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--worker-threads", type=int, default=64)
    parser.add_argument("--static", type=Path, default=Path())
    args, _ = parser.parse_known_args()
    workers = asyncio.Semaphore(args.worker_threads)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                status, body = await respond_to(head.split(b" ")[1].decode(), workers, args.static)
                line = b"HTTP/1.1 %d %s\r\n" % (status, b"OK" if status == 200 else b"Not Found")
                writer.write(line + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", args.port)
    async with server:
        await server.serve_forever()


asyncio.run(main())
