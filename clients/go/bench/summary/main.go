// Summary reads the output of the benchmarks from its input, writes medians and ratios to the file it is told, as JSON, and
// prints what is to hold and whether it does. Exit code 1: something does not hold, or was not measured.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A figure is one metric of one benchmark: the median, and all samples.
type figure struct {
	Median  float64   `json:"median"`
	Samples []float64 `json:"samples"`
}

// figures are those of one benchmark, by unit.
type figures map[string]*figure

// A bar is what is to hold: ours takes at most 1/Least of the time of theirs, and no more allocations than that.
type bar struct {
	Benchmark   string  `json:"benchmark"`
	Ours        string  `json:"ours"`
	Theirs      string  `json:"theirs"`
	Least       float64 `json:"at_least_times_faster"`
	Allocations float64 `json:"at_most_allocations"`
	Ratio       float64 `json:"times_faster"`
	Allocated   float64 `json:"allocations"`
	Holds       bool    `json:"holds"`
}

var bars = []bar{
	{Benchmark: "publish/write", Ours: "tautwire", Theirs: "gregoryv", Least: 6, Allocations: 0},
	{Benchmark: "publish/write", Ours: "tautwire", Theirs: "paho", Least: 15, Allocations: 0},
	{Benchmark: "publish/read", Ours: "tautwire-reader", Theirs: "gregoryv", Least: 20, Allocations: 0},
	{Benchmark: "publish/read", Ours: "tautwire", Theirs: "gregoryv", Least: 6, Allocations: 2},
	{Benchmark: "publish/read", Ours: "tautwire", Theirs: "paho", Least: 12, Allocations: 2},
	{Benchmark: "connect/read", Ours: "tautwire", Theirs: "paho", Least: 8, Allocations: 2},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: summary FILE.json <BENCHMARKS")
		os.Exit(2)
	}
	all, err := read(os.Stdin)
	allHold := judge(all)
	if err == nil {
		err = write(os.Args[1], all)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
		os.Exit(2)
	}
	if !allHold {
		os.Exit(1)
	}
}

// read gives the figures of each benchmark and library: "publish/read" and "tautwire".
func read(from io.Reader) (map[string]map[string]figures, error) {
	all := map[string]map[string]figures{}
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 4 || !strings.HasPrefix(words[0], "BenchmarkPackets/") {
			continue
		}
		name, library, _ := strings.Cut(strings.TrimPrefix(words[0], "BenchmarkPackets/"), "/lib=")
		if all[name] == nil {
			all[name] = map[string]figures{}
		}
		if all[name][library] == nil {
			all[name][library] = figures{}
		}
		for at := 2; at+1 < len(words); at += 2 {
			value, err := strconv.ParseFloat(words[at], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", lines.Text(), err)
			}
			unit := words[at+1]
			if all[name][library][unit] == nil {
				all[name][library][unit] = &figure{}
			}
			f := all[name][library][unit]
			f.Samples = append(f.Samples, value)
			f.Median = median(f.Samples)
		}
	}
	return all, lines.Err()
}

func median(samples []float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// judge fills in what the bars ask for.
func judge(all map[string]map[string]figures) (allHold bool) {
	allHold = true
	for i := range bars {
		b := &bars[i]
		ours, theirs := all[b.Benchmark][b.Ours], all[b.Benchmark][b.Theirs]
		if ours["cpu-ns/op"] != nil && theirs["cpu-ns/op"] != nil {
			b.Ratio = theirs["cpu-ns/op"].Median / ours["cpu-ns/op"].Median
			b.Allocated = ours["allocs/op"].Median
			b.Holds = b.Ratio >= b.Least && b.Allocated <= b.Allocations
		}
		allHold = allHold && b.Holds
		verdict := "holds"
		if !b.Holds {
			verdict = "DOES NOT HOLD"
		}
		fmt.Printf("%-14s %-16s %5.1f times faster than %-9s (at least %g), %g allocations (at most %g): %s\n",
			b.Benchmark, b.Ours, b.Ratio, b.Theirs, b.Least, b.Allocated, b.Allocations, verdict)
	}
	return allHold
}

func write(name string, all map[string]map[string]figures) error {
	versions, err := versions()
	if err != nil {
		return err
	}
	content, err := json.MarshalIndent(map[string]any{
		"date": time.Now().UTC().Format(time.DateOnly), "load_average": loadAverage(), "go": runtime.Version(), "cores": runtime.NumCPU(), "versions": versions, "bars": bars, "benchmarks": all,
		"unit": "cpu-ns/op: CPU time of the process, the collector's too",
	}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(content, '\n'), 0o644)
}

// loadAverage says how busy the machine has been, where it can be had.
func loadAverage() string {
	content, _ := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(content))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

// versions are those of the libraries measured, out of go.mod.
func versions() (map[string]string, error) {
	content, err := os.ReadFile("go.mod")
	found := map[string]string{}
	for _, peer := range []string{"github.com/eclipse/paho.golang", "github.com/gregoryv/mq", "github.com/mochi-mqtt/server/v2",
		"github.com/soypat/natiu-mqtt"} {
		_, after, _ := strings.Cut(string(content), peer+" ")
		found[peer], _, _ = strings.Cut(after, "\n")
	}
	return found, err
}
