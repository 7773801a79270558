// What does sarama see?
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"clients/speaking"
)

type client struct {
	speaking.Plan
	opened sarama.ClusterAdmin
}

func main() {
	plan := speaking.ReadPlan()
	client := &client{Plan: plan}
	operations := plan.Alike(speaking.Calls{
		Create: func(what string, partitions int32, replicas int16) (any, error) {
			return client.create(what, partitions, replicas, false)
		},
		Grow:          client.grow,
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
		"create_assigned": func() (any, error) {
			return client.createAs("assigned", sarama.TopicDetail{
				NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignment: map[int32][]int32{0: {1, 2}, 1: {2, 3}},
			}, false)
		},
		"validate_only":     func() (any, error) { return client.create("imagined", 1, 2, true) },
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

func config(given map[string]string) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	if given != nil {
		secure(config, given)
	}
	return config
}

// As sarama names it.
func secure(config *sarama.Config, given map[string]string) {
	if strings.HasSuffix(given["protocol"], "SSL") {
		settings, err := speaking.TLS(given)
		if err != nil {
			panic(err)
		}
		config.Net.TLS.Enable, config.Net.TLS.Config = true, settings
	}
	if given["mechanism"] == "SSL" {
		return
	}
	sasl := &config.Net.SASL
	sasl.Enable, sasl.Mechanism = true, sarama.SASLMechanism(given["mechanism"])
	sasl.User, sasl.Password, sasl.TokenProvider = given["user"], given["password"], token(given["token"])
	sasl.GSSAPI = sarama.GSSAPIConfig{
		AuthType: sarama.KRB5_KEYTAB_AUTH, ServiceName: "kafka", Username: given["user"], Realm: given["realm"],
		KeyTabPath: given["keytab"], KerberosConfigPath: os.Getenv("KRB5_CONFIG"), DisablePAFXFAST: true,
	}
}

// A token that is given.
type token string

func (token token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(token)}, nil
}

// The admin client of the whole run, opened at its first use.
func (client *client) admin() (sarama.ClusterAdmin, error) {
	if client.opened == nil {
		opened, err := sarama.NewClusterAdmin(client.Addresses(), config(client.Security))
		if err != nil {
			return nil, err
		}
		client.opened = opened
	}
	return client.opened, nil
}

func (client *client) describeCluster() (any, error) {
	admin, err := client.admin()
	if err != nil {
		return nil, err
	}
	brokers, controller, err := admin.DescribeCluster()
	nodes, address := []int32{}, ""
	for _, broker := range brokers {
		nodes = append(nodes, broker.ID())
		if broker.ID() == controller {
			address = broker.Addr()
		}
	}
	return speaking.Result{"nodes": nodes, "controller": controller, "controller_address": address}, err
}

func (client *client) create(what string, partitions int32, replicas int16, isOnlyChecked bool) (any, error) {
	return client.createAs(what, sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: replicas}, isOnlyChecked)
}

func (client *client) createAs(what string, detail sarama.TopicDetail, isOnlyChecked bool) (any, error) {
	admin, err := client.admin()
	if err != nil {
		return nil, err
	}
	return speaking.Accepted(admin.CreateTopic(client.Named(what), &detail, isOnlyChecked))
}

func (client *client) createWithConfigs() (any, error) {
	retention, policy := "3600000", "compact"
	return client.createAs("configs", sarama.TopicDetail{
		NumPartitions: 1, ReplicationFactor: 2,
		ConfigEntries: map[string]*string{"retention.ms": &retention, "cleanup.policy": &policy},
	}, false)
}

func (client *client) topics() ([]string, error) {
	admin, err := client.admin()
	if err != nil {
		return nil, err
	}
	found, err := admin.ListTopics()
	names := []string{}
	for name := range found {
		names = append(names, name)
	}
	return client.Ours(names), err
}

func (client *client) partitions(what string) ([]speaking.Partition, error) {
	admin, err := client.admin()
	if err != nil {
		return nil, err
	}
	topics, err := admin.DescribeTopics([]string{client.Named(what)})
	if err != nil {
		return nil, err
	}
	found := []speaking.Partition{}
	for _, partition := range topics[0].Partitions {
		found = append(found, speaking.Partition{
			Partition: partition.ID, Leader: partition.Leader, Replicas: partition.Replicas, ISR: partition.Isr,
		})
	}
	return speaking.Sorted(found), nil
}

func (client *client) describeTopic() (any, error) {
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

func (client *client) grow(what string, partitions int32) (any, error) {
	admin, err := client.admin()
	if err != nil {
		return nil, err
	}
	return speaking.Accepted(admin.CreatePartitions(client.Named(what), partitions, nil, false))
}

func (client *client) createPartitions() (any, error) {
	if _, err := client.grow("plain", 5); err != nil {
		return nil, err
	}
	found, err := speaking.Until(func() ([]speaking.Partition, error) { return client.partitions("plain") },
		func(partitions []speaking.Partition) bool { return len(partitions) == 5 })
	return speaking.Result{"partitions": len(found)}, err
}

func (client *client) alterConfigs() (any, error) {
	admin, err := client.admin()
	if err != nil {
		return nil, err
	}
	retention := "7200000"
	return speaking.Accepted(admin.IncrementalAlterConfig(sarama.TopicResource, client.Named("configs"),
		map[string]sarama.IncrementalAlterConfigsEntry{
			"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &retention},
		}, false))
}

func (client *client) settings() (speaking.Result, error) {
	admin, err := client.admin()
	if err != nil {
		return nil, err
	}
	entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: client.Named("configs")})
	found := speaking.Result{}
	for _, entry := range entries {
		if entry.Name == "retention.ms" || entry.Name == "cleanup.policy" {
			found[entry.Name] = []string{entry.Value, entry.Source.String()}
		}
	}
	return found, err
}

func (client *client) describeConfigs() (any, error) {
	return speaking.Until(client.settings, func(found speaking.Result) bool {
		return found["retention.ms"].([]string)[0] == "7200000"
	})
}

func (client *client) reassign(what string, replicas []int32) (any, error) {
	admin, err := client.admin()
	if err != nil {
		return nil, err
	}
	return speaking.Accepted(admin.AlterPartitionReassignments(client.Named(what), [][]int32{replicas}))
}

func (client *client) moves() ([]any, error) {
	admin, err := client.admin()
	if err != nil {
		return nil, err
	}
	answer, err := admin.ListPartitionReassignments(client.Named("moving"), []int32{0})
	found := []any{}
	for _, move := range answer[client.Named("moving")] {
		found = append(found, [][]int32{move.Replicas, move.AddingReplicas, move.RemovingReplicas})
	}
	return found, err
}

func (client *client) elect(what string) (any, error) {
	admin, err := client.admin()
	if err != nil {
		return nil, err
	}
	topic := client.Named(what)
	answers, err := admin.ElectLeaders(sarama.PreferredElection, map[string][]int32{topic: {0}})
	if err != nil {
		return nil, err
	}
	answer := answers[topic][0]
	return speaking.Result{"error": answer.ErrorCode.Error(), "message": answer.ErrorMessage}, nil
}

func (client *client) electedLeader() (int32, error) {
	partitions, err := client.partitions("electing")
	if err != nil {
		return -1, err
	}
	return partitions[0].Leader, nil
}

type collector struct {
	seen map[string]bool
	done context.CancelFunc
}

func (collector) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (collector) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (collector collector) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		mutex <- true
		collector.seen[string(message.Value)] = true
		count := len(collector.seen)
		<-mutex
		session.MarkMessage(message, "")
		if count == 100 {
			session.Commit()
			collector.done()
		}
	}
	return nil
}

var mutex = make(chan bool, 1)

func (client *client) produceConsume() (any, error) {
	producer, err := sarama.NewSyncProducer(client.Addresses(), config(client.Security))
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	for number := range 100 {
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{
			Topic: client.Named("plain"), Partition: int32(number % 3),
			Value: sarama.StringEncoder(fmt.Sprintf("record-%d", number)),
		})
		if err != nil {
			return nil, err
		}
	}
	group, err := sarama.NewConsumerGroup(client.Addresses(), client.Named("group"), config(client.Security))
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	collected := collector{map[string]bool{}, cancel}
	if err := group.Consume(within, []string{client.Named("plain")}, collected); err != nil {
		return nil, err
	}
	return speaking.Result{"consumed": len(collected.seen)}, group.Close()
}

func (client *client) groups() ([]string, error) {
	admin, err := client.admin()
	if err != nil {
		return nil, err
	}
	found, err := admin.ListConsumerGroups()
	names := []string{}
	for name := range found {
		names = append(names, name)
	}
	return client.Ours(names), err
}

func scramRefusal(results []*sarama.AlterUserScramCredentialsResult) error {
	for _, result := range results {
		if !errors.Is(result.ErrorCode, sarama.ErrNoError) {
			return result.ErrorCode
		}
	}
	return nil
}

func (client *client) alterScram() (any, error) {
	admin, err := client.admin()
	if err != nil {
		return nil, err
	}
	results, err := admin.UpsertUserScramCredentials([]sarama.AlterUserScramCredentialsUpsert{{
		Name: client.Named("user"), Mechanism: sarama.SCRAM_MECHANISM_SHA_256, Iterations: 4096,
		Salt: []byte("salt"), Password: []byte("secret"),
	}})
	return speaking.Accepted(errors.Join(err, scramRefusal(results)))
}

func (client *client) describeScram() (any, error) {
	admin, err := client.admin()
	if err != nil {
		return nil, err
	}
	user := client.Named("user")
	answers, err := speaking.Until(
		func() ([]*sarama.DescribeUserScramCredentialsResult, error) {
			return admin.DescribeUserScramCredentials([]string{user})
		},
		func(found []*sarama.DescribeUserScramCredentialsResult) bool {
			return len(found[0].CredentialInfos) > 0
		})
	if err != nil {
		return nil, err
	}
	shown := []any{}
	for _, info := range answers[0].CredentialInfos {
		shown = append(shown, []any{info.Mechanism.String(), info.Iterations})
	}
	gone, err := admin.DeleteUserScramCredentials(
		[]sarama.AlterUserScramCredentialsDelete{{Name: user, Mechanism: sarama.SCRAM_MECHANISM_SHA_256}})
	return speaking.Result{"shown": shown}, errors.Join(err, scramRefusal(gone))
}

func (client *client) deleteRecords() (any, error) {
	admin, err := client.admin()
	if err != nil {
		return nil, err
	}
	return speaking.Accepted(admin.DeleteRecords(client.Named("plain"), map[int32]int64{0: 10}))
}

func (client *client) remove(what string) (any, error) {
	admin, err := client.admin()
	if err != nil {
		return nil, err
	}
	return speaking.Accepted(admin.DeleteTopic(client.Named(what)))
}
