# A team's topics, and who may use them. The team owns all topics whose names begin with its own.

terraform {
  required_version = ">= 1.8"
  required_providers {
    penstock = {
      source = "penstock.example/penstock/penstock"
    }
  }
}

# Address and token come from PENSTOCK_API_URL and PENSTOCK_API_KEY.
provider "penstock" {}

variable "team" {
  type        = string
  description = "Name of the team; its topics begin with it."
  default     = "orders"
}

variable "topics" {
  type = map(object({
    partitions = number
    settings   = optional(map(string), {})
  }))
  description = "Topics by name, without the team's."
  default = {
    placed  = { partitions = 6, settings = { retention_ms = "604800000" } }
    shipped = { partitions = 3 }
  }
}

resource "penstock_topic" "of_team" {
  for_each   = var.topics
  name       = "${var.team}-${each.key}"
  partitions = each.value.partitions
  settings   = each.value.settings
}

resource "penstock_service_account" "writer" {
  name = "${var.team}-writer"
}

resource "penstock_service_account" "reader" {
  name = "${var.team}-reader"
}

resource "penstock_principal_group" "team" {
  name    = var.team
  members = [penstock_service_account.writer.principal, penstock_service_account.reader.principal]
}

resource "penstock_acl" "team_describes" {
  effect     = "allow"
  principal  = penstock_principal_group.team.principal
  resource   = "topic"
  name       = "${var.team}-"
  pattern    = "prefix"
  operations = ["describe"]
}

resource "penstock_acl" "writer_produces" {
  effect     = "allow"
  principal  = penstock_service_account.writer.principal
  resource   = "topic"
  name       = "${var.team}-"
  pattern    = "prefix"
  operations = ["produce"]
}

resource "penstock_acl" "reader_consumes" {
  effect     = "allow"
  principal  = penstock_service_account.reader.principal
  resource   = "topic"
  name       = "${var.team}-"
  pattern    = "prefix"
  operations = ["consume"]
}

resource "penstock_api_key" "writer" {
  name             = "${var.team}-writer"
  service_account  = penstock_service_account.writer.id
  rotation_trigger = "2026-01"
  scopes = [
    { resource = "topic", name = "${var.team}-", pattern = "prefix", operations = ["produce"] },
  ]
}

output "topics" {
  value = [for topic in penstock_topic.of_team : topic.name]
}

output "writer_key" {
  value     = penstock_api_key.writer.key
  sensitive = true
}
