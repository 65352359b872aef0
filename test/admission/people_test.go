package admission

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// TestPeopleHaveTheTasksOfTheirRole: a viewer none, a task runner those that neither change
// a node's spec nor remove its data, an editor all of them.
func TestPeopleHaveTheTasksOfTheirRole(t *testing.T) {
	p := newPoliced(t)
	task := func(node string, change func(*v1alpha1.SeiNodeTaskSpec)) *v1alpha1.SeiNodeTask {
		task := &v1alpha1.SeiNodeTask{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, GenerateName: "task-"}}
		task.Spec.Target.NodeRef.Name = node
		change(&task.Spec)
		return task
	}
	restart := func(spec *v1alpha1.SeiNodeTaskSpec) {
		spec.Kind, spec.RestartSeid = v1alpha1.TaskKindRestartSeid, &v1alpha1.RestartSeidPayload{}
	}
	update := func(spec *v1alpha1.SeiNodeTaskSpec) {
		spec.Kind, spec.UpdateNodeImage = v1alpha1.TaskKindUpdateNodeImage, &v1alpha1.UpdateNodeImagePayload{Image: "registry.example.com/seid:v2"}
	}
	resync := func(spec *v1alpha1.SeiNodeTaskSpec) {
		spec.Kind, spec.ResyncNode = v1alpha1.TaskKindResyncNode, &v1alpha1.ResyncNodePayload{}
	}
	people := map[string]client.Client{}
	for _, role := range []string{"sei-view", "sei-task-runner", "sei-edit"} {
		user := role + "@" + p.namespace
		people[role] = p.as(user)
		p.bind(user, role)
	}
	// One who may run tasks, and edit one node.
	const owner = "owner"
	user := owner + "@" + p.namespace
	people[owner] = p.as(user)
	p.bind(user, "sei-task-runner")
	p.createAs(p.admin,
		&rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: owner},
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"seinodes"}, ResourceNames: []string{"mine"}, Verbs: []string{"update"},
			}},
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: owner},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: owner},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		})

	for name, change := range map[string]func(*v1alpha1.SeiNodeTaskSpec){"UpdateNodeImage": update, "ResyncNode": resync} {
		theirs, mine := task("theirs", change), task("mine", change)
		p.refused("a task runner's "+name, p.creating(people["sei-task-runner"], theirs), name, "update the SeiNode theirs", "sei-edit")
		p.refused("the "+name+" of another node than one's own", p.creating(people[owner], theirs), name, "update the SeiNode theirs")
		p.allowed("the "+name+" of one's own node", p.creating(people[owner], mine))
		p.allowed("an editor's "+name, p.creating(people["sei-edit"], theirs))
	}
	p.refused("a viewer's restart", p.creating(people["sei-view"], task("theirs", restart)), "cannot create resource")
	for _, role := range []string{"sei-task-runner", "sei-edit"} {
		p.allowed("a restart of "+role, p.creating(people[role], task("theirs", restart)))
	}
}
