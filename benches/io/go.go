// The server of `cargo xtask io` on Go: HTTP, and lines that are sent back. Argument 1: the folder of /static.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
)

type item struct {
	Price float64 `json:"price"`
	Count int     `json:"count"`
}

type order struct {
	ID    int    `json:"id"`
	Name  string `json:"name"`
	Items []item `json:"items"`
}

type answer struct {
	ID    int     `json:"id"`
	Items int     `json:"items"`
	Sum   float64 `json:"sum"`
	Name  string  `json:"name"`
}

func listen() net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	return l
}

func echo(c net.Conn) {
	defer c.Close()
	in, out := bufio.NewReader(c), bufio.NewWriter(c)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		out.Write(line)
		if in.Buffered() == 0 {
			out.Flush()
		}
	}
}

func main() {
	web, lines := listen(), listen()
	fmt.Printf("%s\t%s\n", web.Addr(), lines.Addr())
	go func() {
		for {
			c, err := lines.Accept()
			if err != nil {
				return
			}
			go echo(c)
		}
	}()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("content-type", "text/plain")
		w.Write([]byte("hello"))
	})
	mux.HandleFunc("POST /json", func(w http.ResponseWriter, r *http.Request) {
		var o order
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			http.Error(w, err.Error(), 400)
			return
		}
		a := answer{ID: o.ID, Items: len(o.Items), Name: o.Name}
		for _, i := range o.Items {
			a.Sum += i.Price * float64(i.Count)
		}
		body, _ := json.Marshal(a)
		w.Header().Set("content-type", "application/json")
		w.Write(body)
	})
	mux.Handle("GET /static/", http.StripPrefix("/static/", http.FileServer(http.Dir(os.Args[1]))))
	http.Serve(web, mux)
}
