// Package speaking: how does a client program in Go get its plan, and print one line for each operation?
package speaking

import (
	"encoding/json"
	"fmt"
	"os"
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

// ReadPlan takes it from standard input.
func ReadPlan() (plan Plan) {
	if err := json.NewDecoder(os.Stdin).Decode(&plan); err != nil {
		panic(err)
	}
	return plan
}

// Perform carries out the plan.
func Perform(plan Plan, operations map[string]Operation) {
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
