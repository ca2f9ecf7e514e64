# A client and a server by `websockets` (Python), for `cargo xtask talk`: messages of all sizes and both kinds, in one piece and in several, pings, closing from either side.
# Arguments: the endpoint of an echo server at /echo, the command that runs a Lua client against the server here.
import asyncio, os, random, subprocess, sys
import websockets

async def client(endpoint):
    rnd = random.Random(7)
    sizes = [0, 1, 125, 126, 127, 65535, 65536, 65537, 1 << 20] + [rnd.randrange(1 << rnd.randrange(1, 18)) for _ in range(300)]
    async with websockets.connect(f"ws://{endpoint}/echo", max_size=1 << 24, compression=None) as ws:
        for size in sizes:
            text = "".join(rnd.choice("abc\u00e4\u20ac\U0001F319") for _ in range(min(size, 100000)))
            message = os.urandom(size) if rnd.random() < 0.5 else text
            if rnd.random() < 0.3 and len(message) > 3:
                a, b = sorted(rnd.sample(range(len(message) + 1), 2))
                await ws.send([message[:a], message[a:b], message[b:]])
            else:
                await ws.send(message)
            if rnd.random() < 0.1:
                await (await ws.ping(b"x" * rnd.randrange(126)))
            answer = await ws.recv()
            assert answer == message and type(answer) is type(message), size
        await ws.close(code=4001, reason="bye")
        assert ws.close_code == 4001, ws.close_code
    # Compression is offered, and refused.
    async with websockets.connect(f"ws://{endpoint}/echo", compression="deflate") as ws:
        await ws.send("hello")
        assert await ws.recv() == "hello"
    print("client:", len(sizes), "messages")

async def echo(ws, path=None):
    try:
        async for message in ws:
            if message == "bye":
                return await ws.close(4002, "the server says bye")
            if message == "ping":
                await (await ws.ping())
                message = "ponged"
            await ws.send([message[:3], message[3:]] if isinstance(message, str) and message.startswith("pieces") else message)
    except websockets.ConnectionClosed:
        pass

async def main():
    await client(sys.argv[1])
    async with websockets.serve(echo, "127.0.0.1", 0, max_size=1 << 24) as server:
        port = server.sockets[0].getsockname()[1]
        lua = await asyncio.create_subprocess_exec(*sys.argv[2:], f"ws://127.0.0.1:{port}/")
        assert await lua.wait() == 0
        print("server: done")

asyncio.run(main())
