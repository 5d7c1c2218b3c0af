;;; agent-q-audit.el --- What tools did that can do harm  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Shows the audit log, to which the core appends a JSON line before and after
;; each cautious or dangerous call.  Nothing here writes to it.

;;; Code:

(require 'agent-q-json)
(require 'agent-q-module)
(require 'tabulated-list)

(declare-function agent-q-core-status "ext:agent-q-core" ())

(defconst agent-q-audit-tail 1000000
  "How many bytes of the log's end are shown.")

(defvar agent-q-audit-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'agent-q-audit-describe)
    map)
  "Keymap of `agent-q-audit-mode'.")

(define-derived-mode agent-q-audit-mode tabulated-list-mode "agent-q audit"
  "Major mode of the audit log, the latest step first.

\\{agent-q-audit-mode-map}"
  (setq tabulated-list-format
        [("Time" 24 t) ("Chat" 4 nil) ("Step" 8 t) ("Tool" 20 t) ("Level" 9 t)
         ("Decision" 11 t) ("By" 7 t) ("Outcome" 9 t) ("ms" 7 nil :right-align t)
         ("Arguments" 0 nil)]
        tabulated-list-entries #'agent-q-audit--entries)
  (tabulated-list-init-header))

(defun agent-q-audit-file ()
  "Return the name of the audit log, which stands beside the core's log."
  (expand-file-name "audit.jsonl"
                    (file-name-directory (expand-file-name agent-q-log-file))))

;;;###autoload
(defun agent-q-audit-log ()
  "Show the audit log: each call of a cautious or dangerous tool, before and after.
Calls outside chats have chat 0."
  (interactive)
  (unless (file-readable-p (agent-q-audit-file))
    (user-error "There is no audit log yet at %s" (agent-q-audit-file)))
  (pop-to-buffer
   (with-current-buffer (get-buffer-create "*agent-q audit*")
     (agent-q-audit-mode)
     (tabulated-list-print)
     (current-buffer))))

(defun agent-q-audit-records ()
  "Return what the audit log has as hash tables, latest first.
A line that can't be read is left out."
  (with-temp-buffer
    (let* ((file (agent-q-audit-file))
           (size (file-attribute-size (file-attributes file)))
           (start (max 0 (- size agent-q-audit-tail)))
           (records nil))
      (let ((coding-system-for-read 'utf-8-unix))
        (insert-file-contents file nil start size))
      (unless (zerop start)
        (forward-line 1))
      (while (not (eobp))
        (let ((record (ignore-errors
                        (agent-q-json-parse
                         (buffer-substring (point) (line-end-position))))))
          (when (hash-table-p record)
            (push record records)))
        (forward-line 1))
      records)))

(defun agent-q-audit--entries ()
  "Return the rows of the audit log."
  (mapcar (lambda (record)
            (list record
                  (vconcat
                   (mapcar (lambda (key) (agent-q-audit--text (gethash key record)))
                           '("time" "chat" "step" "tool" "level" "decision"
                             "decided_by" "outcome" "milliseconds" "arguments")))))
          (agent-q-audit-records)))

(defun agent-q-audit--text (value)
  "Return VALUE of a record for a column."
  (replace-regexp-in-string
   "[[:cntrl:]]+" " "
   (cond ((null value) "")
         ((stringp value) value)
         ((numberp value) (number-to-string value))
         (t (agent-q-json-encode value)))))

(defun agent-q-audit-describe ()
  "Show the whole of the step at point."
  (interactive)
  (let ((record (or (tabulated-list-get-id)
                    (user-error "There is no step on this line"))))
    (with-help-window "*agent-q audit step*"
      (maphash (lambda (key value)
                 (princ (format "%s: %s\n" key
                                (if (hash-table-p value)
                                    (agent-q-audit--arguments value)
                                  (agent-q-audit--text value)))))
               record))))

(defun agent-q-audit--arguments (arguments)
  "Return ARGUMENTS, a hash table, a line or more for each."
  (let ((lines nil))
    (maphash (lambda (name value)
               (push (format "\n  %s: %s" name
                             (if (stringp value) value (agent-q-json-encode value)))
                     lines))
             arguments)
    (apply #'concat (nreverse lines))))

(provide 'agent-q-audit)
;;; agent-q-audit.el ends here
