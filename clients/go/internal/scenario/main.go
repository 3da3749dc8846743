// Command scenario is the agent of this client for tests/scenario: it executes commands, one per line, and prints the
// client's events.
//
//	scenario mqtt://127.0.0.1:1883
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: scenario ADDRESS")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "scenario:", err)
		os.Exit(1)
	}
}

// command gets the words after its name; the last one has the rest of the line.
type command struct {
	words int
	run   func(a *agent, words []string)
}

var commands = map[string]command{
	"connect":     {1, (*agent).connect},
	"start":       {1, (*agent).start},
	"subscribe":   {2, (*agent).subscribe},
	"hold":        {2, (*agent).hold},
	"stall":       {2, (*agent).stall},
	"stumble":     {2, (*agent).stumble},
	"acknowledge": {1, (*agent).acknowledge},
	"unsubscribe": {1, (*agent).unsubscribe},
	"publish":     {3, (*agent).publish},
	"respond":     {3, (*agent).respond},
	"request":     {3, (*agent).request},
	"close":       {0, (*agent).close},
}

func run(address string, input io.Reader, output io.Writer) error {
	a := newAgent(address, output)
	defer a.end()
	lines := bufio.NewScanner(input)
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), " ")
		known, ok := commands[name]
		if !ok {
			return fmt.Errorf("unknown command %q", name)
		}
		words := strings.SplitN(rest, " ", max(known.words, 1))
		for len(words) < known.words {
			words = append(words, "")
		}
		known.run(a, words)
	}
	return lines.Err()
}
