;;; agent-q-trial-test.el --- Tests of `make trial'  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Each task's check has to tell the seeded project from a mended one, and the table has to say what
;; a scripted model did.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-json)

(defconst agent-q-trial-test--tasks
  (seq-filter (lambda (name)
                (file-directory-p (expand-file-name (concat "test/trial/" name) agent-q-test-root)))
              (directory-files (expand-file-name "test/trial" agent-q-test-root)
                               nil directory-files-no-dot-files-regexp))
  "The names of the tasks.")

(defun agent-q-trial-test--file (task &rest names)
  "Return the file of NAMES, folders and a name, of TASK."
  (expand-file-name (string-join (append (list "test/trial" task) names) "/") agent-q-test-root))

(defun agent-q-trial-test--fix (task)
  "Return the changes that mend TASK, lists of a file, old and new text."
  (with-temp-buffer
    (insert-file-contents (agent-q-trial-test--file task "fix.eld"))
    (read (current-buffer))))

(defun agent-q-trial-test--run (command &rest environment)
  "Start COMMAND, a shell's, with ENVIRONMENT; return its process."
  (let ((process-environment (append environment process-environment))
        (default-directory agent-q-test-root))
    (start-process-shell-command "trial" (generate-new-buffer " *trial*") command)))

(defun agent-q-trial-test--said (process)
  "Wait for PROCESS to end, and return what it has printed."
  (let ((agent-q-test-patience 300))
    (with-current-buffer (process-buffer process)
      ;; That comes behind all of its output.
      (agent-q-test-until (string-match-p "^Process trial.*\n\\'" (buffer-string)))
      (prog1 (buffer-string)
        (kill-buffer)))))

(defun agent-q-trial-test--check (task mended)
  "Start the check of TASK in a copy of its project, which is MENDED or not.
Return the process."
  (let ((project (make-temp-file (expand-file-name task agent-q-test-directory) t)))
    (copy-directory (agent-q-trial-test--file task "project")
                    (file-name-as-directory project) nil nil t)
    (when mended
      (pcase-dolist (`(,file ,old ,new) (agent-q-trial-test--fix task))
        (with-temp-file (expand-file-name file project)
          (insert-file-contents (expand-file-name file project))
          (search-forward old)
          (replace-match new t t))))
    (agent-q-trial-test--run (format ". scripts/trial-check.sh && check %s %s" project task))))

(ert-deftest agent-q-trial-checks-tell-a-mended-project ()
  :tags '(:image)
  (skip-unless (executable-find "sbcl"))
  (let ((checks (mapcan (lambda (task)
                          (list (cons (list task 'seeded) (agent-q-trial-test--check task nil))
                                (cons (list task 'mended) (agent-q-trial-test--check task t))))
                        agent-q-trial-test--tasks)))
    (pcase-dolist (`((,task ,state) . ,process) checks)
      (let ((said (agent-q-trial-test--said process)))
        (should (string-match "\\([0-9]+\\) of \\([0-9]+\\)" said))
        (should (equal (list task state
                             (equal (match-string 1 said) (match-string 2 said)))
                       (list task state (eq state 'mended))))))))

(ert-deftest agent-q-trial-says-what-a-model-did ()
  "A model that mends one task and leaves another as it is."
  :tags '(:image :slime)
  (skip-unless (executable-find "sbcl"))
  (let* ((edits (mapcar (pcase-lambda (`(,file ,old ,new))
                          `(:name "edit_file"
                            :arguments (:path ,file :old_str ,old :new_str ,new)))
                        (agent-q-trial-test--fix "ledger")))
         (outside '(:name "write_file"
                    :arguments (:path "../outside.txt" :content "a")))
         (script `(:turns [(:steps [(:tool_calls ,(vconcat edits (list outside)))
                                    (:usage [100 10])])
                           (:steps [(:text "Done.") (:usage [200 20])])
                           (:steps [(:text "I do nothing.") (:usage [50 5])])])))
    (agent-q-test-with-model (agent-q-json-encode script)
      (let ((said (agent-q-trial-test--said
                   (agent-q-trial-test--run
                    "sh scripts/trial.sh" "YES=1" "TASKS=ledger memo"
                    (format "PROVIDER=%S" agent-q-provider)))))
        (should (string-match-p "^| ledger | yes | 2 | 2 (1) | 2 (1) | [0-9]+ | 300, 30 | [0-9]+ | finished |$" said))
        (should (string-match-p "^| memo | no ([0-9]+ of 9) | 1 | 0 (0) | 0 (0) | 0 | 50, 5 | [0-9]+ | finished |$" said))
        (should (string-match-p "^1 of 2 solved by " said))))))

(provide 'agent-q-trial-test)
;;; agent-q-trial-test.el ends here
