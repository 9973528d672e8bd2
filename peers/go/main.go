// Reference 4 in Go: the same three endpoints with net/http alone.
package main

import (
	"encoding/json"
	"flag"
	"io"
	"log"
	"net/http"
)

func text(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	io.WriteString(w, body)
}

func main() {
	host := flag.String("host", "127.0.0.1", "address to listen on")
	port := flag.String("port", "3000", "port to listen on")
	flag.Parse()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		text(w, "hello world")
	})
	mux.HandleFunc("GET /json", func(w http.ResponseWriter, r *http.Request) {
		body, _ := json.Marshal(struct {
			Hello string `json:"hello"`
		}{"world"})
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Write(body)
	})
	mux.HandleFunc("GET /users/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, query := r.PathValue("id"), r.URL.Query()
		if query.Has("name") {
			text(w, id+" "+query.Get("name"))
		} else {
			text(w, id)
		}
	})
	log.Fatal(http.ListenAndServe(*host+":"+*port, mux))
}
