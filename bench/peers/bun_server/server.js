// Owns: Bun's server as a peer: the same responses as performance_test.
//
//   bun server.js PORT TLS_PORT FILES CERTIFICATE KEY
const [port, tlsPort, files, certificate, key] = Bun.argv.slice(2);
const text = {headers: {'Content-Type': 'text/plain'}};
const binary = {headers: {'Content-Type': 'application/octet-stream'}};

const server = {
    hostname: '127.0.0.1',
    idleTimeout: 60,
    // Responses that never change are given to the server once: no JavaScript runs for these requests.
    routes: {
        '/': new Response('Hello, World!', text),
        '/large/100kb': new Response(Buffer.alloc(100 * 1024, 'a'), binary),
    },
    fetch(request, self) {
        const {pathname} = new URL(request.url);
        if (pathname === '/ws' && self.upgrade(request)) return undefined;
        if (pathname.startsWith('/static/') && !pathname.includes('..'))
            return new Response(Bun.file(files + pathname.slice('/static'.length)));
        return new Response('', {status: 404});
    },
    websocket: {
        perMessageDeflate: false,
        message(socket, message) {
            socket.send(message);
        },
    },
};

Bun.serve({...server, port: Number(port)});
Bun.serve({...server, port: Number(tlsPort), tls: {cert: Bun.file(certificate), key: Bun.file(key)}});
