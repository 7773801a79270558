// What does franz-go see?
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"clients/speaking"
)

type franz struct {
	speaking.Plan
	admin *kadm.Client
	raw   *kgo.Client
}

func main() {
	plan := speaking.ReadPlan()
	secured, err := security(plan.Security)
	if err != nil {
		panic(err)
	}
	raw, err := kgo.NewClient(append(secured, kgo.SeedBrokers(plan.Addresses()...))...)
	if err != nil {
		panic(err)
	}
	client := franz{plan, kadm.NewClient(raw), raw}
	operations := plan.Alike(speaking.Calls{
		Create: func(what string, partitions int32, replicas int16) (any, error) {
			return client.create(what, partitions, replicas, nil)
		},
		Grow:          func(what string, partitions int32) (any, error) { return client.grow(what, int(partitions)) },
		Topics:        client.topics,
		Reassign:      client.reassign,
		Moves:         client.moves,
		Elect:         client.elect,
		ElectedLeader: client.electedLeader,
		Groups:        client.groups,
		Remove:        client.remove,
	})
	maps.Copy(operations, map[string]speaking.Operation{
		"describe_cluster":    client.describeCluster,
		"create_with_configs": client.createWithConfigs,
		"create_assigned":     client.createAssigned,
		"validate_only": func() (any, error) {
			answers, err := client.admin.ValidateCreateTopics(context.Background(), 1, 2, nil, client.Named("imagined"))
			return speaking.Accepted(errors.Join(err, refusal(answers[client.Named("imagined")].Err, answers[client.Named("imagined")].ErrMessage)))
		},
		"describe_topic":    client.describeTopic,
		"create_partitions": client.createPartitions,
		"alter_configs":     client.alterConfigs,
		"describe_configs":  client.describeConfigs,
		"produce_consume":   client.produceConsume,
		"alter_scram":       client.alterScram,
		"describe_scram":    client.describeScram,
		"delete_records":    client.deleteRecords,
	})
	speaking.Perform(plan, operations)
}

// security is as franz-go names it.
func security(given map[string]string) (options []kgo.Opt, err error) {
	if given == nil {
		return nil, nil
	}
	if strings.HasSuffix(given["protocol"], "SSL") {
		settings, err := speaking.TLS(given)
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(settings))
	}
	user, password := given["user"], given["password"]
	switch given["mechanism"] {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
	case "OAUTHBEARER":
		options = append(options, kgo.SASL(oauth.Auth{Token: given["token"]}.AsMechanism()))
	}
	return options, nil
}

// What a user sees: the error, and the text that came with it.
func refusal(err error, message string) error {
	if err == nil {
		return nil
	}
	var known *kerr.Error
	if errors.As(err, &known) {
		return fmt.Errorf("%s: %s", known.Message, message)
	}
	return err
}

func (client franz) describeCluster() (any, error) {
	cluster, err := client.admin.BrokerMetadata(context.Background())
	if err != nil {
		return nil, err
	}
	address := ""
	for _, broker := range cluster.Brokers {
		if broker.NodeID == cluster.Controller {
			address = fmt.Sprintf("%s:%d", broker.Host, broker.Port)
		}
	}
	return speaking.Result{
		"nodes": cluster.Brokers.NodeIDs(), "controller": cluster.Controller, "controller_address": address,
	}, nil
}

func (client franz) create(what string, partitions int32, replicas int16, configs map[string]*string) (any, error) {
	answers, err := client.admin.CreateTopics(context.Background(), partitions, replicas, configs, client.Named(what))
	answer := answers[client.Named(what)]
	if err := errors.Join(err, refusal(answer.Err, answer.ErrMessage)); err != nil {
		return nil, err
	}
	settings := speaking.Result{}
	for _, name := range []string{"retention.ms", "cleanup.policy", "min.insync.replicas"} {
		settings[name] = "not told"
		if config, has := answer.Configs[name]; has {
			settings[name] = []string{config.MaybeValue(), config.Source.String()}
		}
	}
	return speaking.Result{
		"accepted": true, "partitions": answer.NumPartitions, "replicas": answer.ReplicationFactor, "settings": settings,
	}, nil
}

func (client franz) createWithConfigs() (any, error) {
	return client.create("configs", 1, 2, map[string]*string{
		"retention.ms": kadm.StringPtr("3600000"), "cleanup.policy": kadm.StringPtr("compact"),
	})
}

func (client franz) createAssigned() (any, error) {
	request := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = client.Named("assigned"), -1, -1
	for partition, replicas := range [][]int32{{1, 2}, {2, 3}} {
		assigned := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		assigned.Partition, assigned.Replicas = int32(partition), replicas
		topic.ReplicaAssignment = append(topic.ReplicaAssignment, assigned)
	}
	request.Topics = append(request.Topics, topic)
	answer, err := request.RequestWith(context.Background(), client.raw)
	if err != nil {
		return nil, err
	}
	return speaking.Accepted(kerr.ErrorForCode(answer.Topics[0].ErrorCode))
}

func (client franz) topics() ([]string, error) {
	found, err := client.admin.ListTopics(context.Background())
	return client.Ours(found.Names()), err
}

func (client franz) partitions(what string) ([]speaking.Partition, error) {
	found, err := client.admin.ListTopics(context.Background(), client.Named(what))
	if err != nil {
		return nil, err
	}
	partitions := []speaking.Partition{}
	for _, partition := range found[client.Named(what)].Partitions {
		partitions = append(partitions, speaking.Partition{
			Partition: partition.Partition, Leader: partition.Leader, Replicas: partition.Replicas, ISR: partition.ISR,
		})
	}
	return speaking.Sorted(partitions), found[client.Named(what)].Err
}

func (client franz) describeTopic() (any, error) {
	found := speaking.Result{}
	for _, what := range []string{"plain", "assigned"} {
		partitions, err := speaking.Until(
			func() ([]speaking.Partition, error) { return client.partitions(what) }, speaking.InSync)
		if err != nil {
			return nil, err
		}
		found[client.Named(what)] = partitions
	}
	return found, nil
}

func (client franz) grow(what string, partitions int) (any, error) {
	answers, err := client.admin.UpdatePartitions(context.Background(), partitions, client.Named(what))
	answer := answers[client.Named(what)]
	return speaking.Accepted(errors.Join(err, refusal(answer.Err, answer.ErrMessage)))
}

func (client franz) createPartitions() (any, error) {
	if _, err := client.grow("plain", 5); err != nil {
		return nil, err
	}
	found, err := speaking.Until(func() ([]speaking.Partition, error) { return client.partitions("plain") },
		func(partitions []speaking.Partition) bool { return len(partitions) == 5 })
	return speaking.Result{"partitions": len(found)}, err
}

func (client franz) alterConfigs() (any, error) {
	change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("7200000")}}
	answers, err := client.admin.AlterTopicConfigs(context.Background(), change, client.Named("configs"))
	if err != nil {
		return nil, err
	}
	return speaking.Accepted(refusal(answers[0].Err, answers[0].ErrMessage))
}

func (client franz) settings() (speaking.Result, error) {
	answers, err := client.admin.DescribeTopicConfigs(context.Background(), client.Named("configs"))
	if err != nil {
		return nil, err
	}
	found := speaking.Result{}
	for _, config := range answers[0].Configs {
		if config.Key == "retention.ms" || config.Key == "cleanup.policy" {
			found[config.Key] = []string{config.MaybeValue(), config.Source.String()}
		}
	}
	return found, answers[0].Err
}

func (client franz) describeConfigs() (any, error) {
	return speaking.Until(client.settings, func(found speaking.Result) bool {
		return found["retention.ms"].([]string)[0] == "7200000"
	})
}

func (client franz) reassign(what string, replicas []int32) (any, error) {
	var request kadm.AlterPartitionAssignmentsReq
	request.Assign(client.Named(what), 0, replicas)
	answers, err := client.admin.AlterPartitionAssignments(context.Background(), request)
	answer := answers[client.Named(what)][0]
	return speaking.Accepted(errors.Join(err, refusal(answer.Err, answer.ErrMessage)))
}

func (client franz) moves() ([]any, error) {
	var asked kadm.TopicsSet
	asked.Add(client.Named("moving"), 0)
	answers, err := client.admin.ListPartitionReassignments(context.Background(), asked)
	found := []any{}
	for _, move := range answers[client.Named("moving")] {
		found = append(found, [][]int32{move.Replicas, move.AddingReplicas, move.RemovingReplicas})
	}
	return found, err
}

func (client franz) elect(what string) (any, error) {
	var asked kadm.TopicsSet
	asked.Add(client.Named(what), 0)
	answers, err := client.admin.ElectLeaders(context.Background(), kadm.ElectPreferredReplica, asked)
	if err != nil {
		return nil, err
	}
	answer := answers[client.Named(what)][0]
	if answer.Err != nil {
		return speaking.Result{"error": refusal(answer.Err, answer.ErrMessage).Error()}, nil
	}
	return "elected", nil
}

func (client franz) electedLeader() (int32, error) {
	partitions, err := client.partitions("electing")
	if err != nil {
		return -1, err
	}
	return partitions[0].Leader, nil
}

func (client franz) produceConsume() (any, error) {
	within, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	producer, err := kgo.NewClient(kgo.SeedBrokers(client.Addresses()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	records := []*kgo.Record{}
	for number := range 100 {
		record := kgo.StringRecord(fmt.Sprintf("record-%d", number))
		record.Topic, record.Partition = client.Named("plain"), int32(number%3)
		records = append(records, record)
	}
	if err := producer.ProduceSync(within, records...).FirstErr(); err != nil {
		return nil, err
	}
	consumer, err := kgo.NewClient(kgo.SeedBrokers(client.Addresses()...), kgo.ConsumerGroup(client.Named("group")),
		kgo.ConsumeTopics(client.Named("plain")), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	seen := map[string]bool{}
	for len(seen) < 100 && within.Err() == nil {
		consumer.PollFetches(within).EachRecord(func(record *kgo.Record) { seen[string(record.Value)] = true })
	}
	return speaking.Result{"consumed": len(seen)}, consumer.CommitUncommittedOffsets(within)
}

func (client franz) groups() ([]string, error) {
	found, err := client.admin.ListGroups(context.Background())
	return client.Ours(found.Groups()), err
}

func (client franz) alterScram() (any, error) {
	user := kadm.UpsertSCRAM{
		User: client.Named("user"), Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "secret",
	}
	answers, err := client.admin.AlterUserSCRAMs(context.Background(), nil, []kadm.UpsertSCRAM{user})
	answer := answers[user.User]
	return speaking.Accepted(errors.Join(err, refusal(answer.Err, answer.ErrMessage)))
}

func (client franz) describeScram() (any, error) {
	user := client.Named("user")
	answers, err := speaking.Until(
		func() (kadm.DescribedUserSCRAMs, error) {
			return client.admin.DescribeUserSCRAMs(context.Background(), user)
		},
		func(found kadm.DescribedUserSCRAMs) bool { return found[user].Err == nil })
	if err != nil {
		return nil, err
	}
	shown := []any{}
	for _, info := range answers[user].CredInfos {
		shown = append(shown, []any{info.Mechanism.String(), info.Iterations})
	}
	gone, err := client.admin.AlterUserSCRAMs(
		context.Background(), []kadm.DeleteSCRAM{{User: user, Mechanism: kadm.ScramSha256}}, nil)
	return speaking.Result{"shown": shown}, errors.Join(err, refusal(gone[user].Err, gone[user].ErrMessage))
}

func (client franz) deleteRecords() (any, error) {
	offsets := kadm.Offsets{}
	offsets.AddOffset(client.Named("plain"), 0, 10, -1)
	answers, err := client.admin.DeleteRecords(context.Background(), offsets)
	answer := answers[client.Named("plain")][0]
	return speaking.Result{"low_watermark": answer.LowWatermark}, errors.Join(err, answer.Err)
}

func (client franz) remove(what string) (any, error) {
	answers, err := client.admin.DeleteTopics(context.Background(), client.Named(what))
	answer := answers[client.Named(what)]
	return speaking.Accepted(errors.Join(err, refusal(answer.Err, answer.ErrMessage)))
}
