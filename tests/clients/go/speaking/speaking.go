// Package speaking: how does a client program in Go get its plan, and print one line for each operation?
package speaking

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"time"
)

// Plan is what this process has to do: see tests/clients/running.py.
type Plan struct {
	Bootstrap  string   `json:"bootstrap"`
	Prefix     string   `json:"prefix"`
	Operations []string `json:"operations"`
	MoveTo     []int32  `json:"move_to"`
	TimeoutS   float64  `json:"timeout_s"`
	AskForS    float64  `json:"ask_for_s"`
	// How to log in, and nothing where nobody has to; see tests/clients/running.py.
	Security map[string]string `json:"security"`
}

// TLS is whom to trust, and the own certificate where that is the way in.
func TLS(security map[string]string) (*tls.Config, error) {
	settings := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	trusted, err := os.ReadFile(security["authority"])
	if err != nil {
		return nil, err
	}
	settings.RootCAs.AppendCertsFromPEM(trusted)
	if security["mechanism"] == "SSL" {
		own, err := tls.LoadX509KeyPair(security["certificate"], security["key"])
		if err != nil {
			return nil, err
		}
		settings.Certificates = []tls.Certificate{own}
	}
	return settings, nil
}

// Addresses are the bootstrap servers, one by one.
func (plan Plan) Addresses() []string { return strings.Split(plan.Bootstrap, ",") }

// Named is the name of something of this run.
func (plan Plan) Named(what string) string { return plan.Prefix + "-" + what }

// Ours are those names that are of this run, sorted.
func (plan Plan) Ours(names []string) []string {
	found := []string{}
	for _, name := range names {
		if strings.HasPrefix(name, plan.Prefix+"-") {
			found = append(found, name)
		}
	}
	sort.Strings(found)
	return found
}

// Result is what one operation says.
type Result = map[string]any

// Operation does one thing.
type Operation func() (any, error)

// Accepted is the result of what has no other.
func Accepted(err error) (any, error) { return Result{"accepted": true}, err }

// Partition is as a client describes it.
type Partition struct {
	Partition int32   `json:"partition"`
	Leader    int32   `json:"leader"`
	Replicas  []int32 `json:"replicas"`
	ISR       []int32 `json:"isr"`
}

// Sorted has partitions and their ISR in order.
func Sorted(partitions []Partition) []Partition {
	sort.Slice(partitions, func(a, b int) bool { return partitions[a].Partition < partitions[b].Partition })
	for _, partition := range partitions {
		isr := partition.ISR
		sort.Slice(isr, func(a, b int) bool { return isr[a] < isr[b] })
	}
	return partitions
}

// InSync tells whether each of some partitions has two replicas in sync.
func InSync(partitions []Partition) bool {
	for _, partition := range partitions {
		if len(partition.ISR) != 2 {
			return false
		}
	}
	return len(partitions) > 0
}

// Until asks again until it is so; the last answer if it never is.
func Until[T any](ask func() (T, error), isSo func(T) bool) (T, error) {
	deadline := time.Now().Add(10 * time.Second)
	for {
		isLast := time.Now().After(deadline)
		answer, err := ask()
		if isLast || (err == nil && isSo(answer)) {
			return answer, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// Calls are what a client's own library does for it.
type Calls struct {
	Create        func(what string, partitions int32, replicas int16) (any, error)
	Grow          func(what string, partitions int32) (any, error)
	Topics        func() ([]string, error)
	Reassign      func(what string, replicas []int32) (any, error)
	Moves         func() ([]any, error)
	Elect         func(what string) (any, error)
	ElectedLeader func() (int32, error)
	Groups        func() ([]string, error)
	Remove        func(what string) (any, error)
}

// Alike are the operations that are the same whatever the library.
func (plan Plan) Alike(calls Calls) map[string]Operation {
	return map[string]Operation{
		"create_topic":                  func() (any, error) { return calls.Create("plain", 3, 2) },
		"create_existing":               func() (any, error) { return calls.Create("plain", 3, 2) },
		"create_with_too_many_replicas": func() (any, error) { return calls.Create("crowded", 1, 9) },
		"list_topics": func() (any, error) {
			return Until(calls.Topics, func(names []string) bool { return len(names) == 5 })
		},
		"create_fewer_partitions": func() (any, error) { return calls.Grow("plain", 2) },
		"grow_unknown":            func() (any, error) { return calls.Grow("unknown", 5) },
		"reassign":                func() (any, error) { return calls.Reassign("moving", plan.MoveTo) },
		"list_reassignments": func() (any, error) {
			return Until(calls.Moves, func(found []any) bool { return len(found) > 0 })
		},
		"cancel_reassignment": func() (any, error) {
			cancelled, err := calls.Reassign("moving", nil)
			if err != nil {
				return nil, err
			}
			left, err := Until(calls.Moves, func(found []any) bool { return len(found) == 0 })
			return Result{"cancelled": cancelled, "left": left}, err
		},
		"cancel_nothing":   func() (any, error) { return calls.Reassign("moving", nil) },
		"reassign_unknown": func() (any, error) { return calls.Reassign("unknown", []int32{1, 2}) },
		"elect_leaders": func() (any, error) {
			answer, err := calls.Elect("electing")
			if err != nil {
				return nil, err
			}
			leader, err := Until(calls.ElectedLeader, func(leader int32) bool { return leader == 2 })
			return Result{"answer": answer, "leader": leader}, err
		},
		"elect_again":   func() (any, error) { return calls.Elect("electing") },
		"elect_unknown": func() (any, error) { return calls.Elect("unknown") },
		"list_groups": func() (any, error) {
			return Until(calls.Groups, func(found []string) bool { return len(found) > 0 })
		},
		"delete_topic": func() (any, error) {
			if _, err := calls.Remove("configs"); err != nil {
				return nil, err
			}
			left, err := Until(calls.Topics, func(names []string) bool {
				return !slices.Contains(names, plan.Named("configs"))
			})
			return Result{"left": left}, err
		},
		"delete_unknown": func() (any, error) { return calls.Remove("unknown") },
	}
}

// ReadPlan takes it from standard input.
func ReadPlan() (plan Plan) {
	if err := json.NewDecoder(os.Stdin).Decode(&plan); err != nil {
		panic(err)
	}
	return plan
}

// Perform carries out the plan.
func Perform(plan Plan, operations map[string]Operation) {
	operations["keep_asking"] = func() (any, error) { return keepAsking(plan, operations["validate_only"]) }
	for _, name := range plan.Operations {
		line := Result{"operation": name}
		if operation, has := operations[name]; has {
			line["result"] = outcome(operation, plan.TimeoutS)
		} else {
			line["unsupported"] = true
		}
		said, err := json.Marshal(line)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(said))
	}
}

func keepAsking(plan Plan, ask Operation) (any, error) {
	deadline := time.Now().Add(time.Duration(plan.AskForS * float64(time.Second)))
	for time.Now().Before(deadline) {
		attempt := Result{"begun": time.Now().UnixMilli(), "error": nil}
		if _, err := ask(); err != nil {
			attempt["error"] = err.Error()
		}
		attempt["ended"] = time.Now().UnixMilli()
		said, err := json.Marshal(attempt)
		if err != nil {
			return nil, err
		}
		fmt.Println(string(said))
		time.Sleep(100 * time.Millisecond)
	}
	return Result{"ended": true}, nil
}

func outcome(operation Operation, timeoutS float64) any {
	done := make(chan any, 1)
	go func() {
		defer func() {
			if trouble := recover(); trouble != nil {
				done <- Result{"error": "panic", "message": fmt.Sprint(trouble)}
			}
		}()
		result, err := operation()
		if err != nil {
			result = Result{"error": "failed", "message": err.Error()}
		}
		done <- result
	}()
	select {
	case result := <-done:
		return result
	case <-time.After(time.Duration(timeoutS * float64(time.Second))):
		return Result{"error": fmt.Sprintf("nothing within %g s", timeoutS)}
	}
}
