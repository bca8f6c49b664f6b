// Owns: fasthttp as a peer: the same responses as performance_test.
//
//	fasthttp_server PORT TLS_PORT FILES CERTIFICATE KEY
package main

import (
	"bytes"
	"log"
	"os"
	"time"

	"github.com/valyala/fasthttp"
)

func main() {
	if len(os.Args) != 6 {
		log.Fatal("usage: fasthttp_server PORT TLS_PORT FILES CERTIFICATE KEY")
	}
	hello := []byte("Hello, World!")
	large := bytes.Repeat([]byte("a"), 100*1024)
	files := (&fasthttp.FS{
		Root:          os.Args[3],
		PathRewrite:   fasthttp.NewPathSlashesStripper(1), // of "/static/"
		CacheDuration: time.Minute,                        // of open files
	}).NewRequestHandler()
	handler := func(ctx *fasthttp.RequestCtx) {
		switch path := string(ctx.Path()); path {
		case "/":
			ctx.SetContentType("text/plain")
			ctx.Response.SetBodyRaw(hello)
		case "/large/100kb":
			ctx.SetContentType("application/octet-stream")
			ctx.Response.SetBodyRaw(large) // without a copy
		default:
			files(ctx)
		}
	}
	server := func() *fasthttp.Server {
		return &fasthttp.Server{
			Handler:               handler,
			NoDefaultServerHeader: true,
			IdleTimeout:           time.Minute,
		}
	}
	go func() { log.Fatal(server().ListenAndServeTLS("127.0.0.1:"+os.Args[2], os.Args[4], os.Args[5])) }()
	log.Fatal(server().ListenAndServe("127.0.0.1:" + os.Args[1]))
}
